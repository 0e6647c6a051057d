from core.ui.shell import page_guard

page_guard()

from core.ui.part6 import draw  # noqa: E402

draw()
