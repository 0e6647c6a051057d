from core.ui.shell import page_guard

page_guard()

from core.ui.real_or_fake import draw  # noqa: E402

draw()
