from core.ui.shell import page_guard

page_guard()

from core.ui.preflight import draw  # noqa: E402

draw()
