from core.ui.shell import page_guard

page_guard()

from core.ui.part4 import draw  # noqa: E402

draw()
