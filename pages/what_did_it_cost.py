from core.ui.shell import page_guard

page_guard()

from core.ui.part5 import draw  # noqa: E402

draw()
