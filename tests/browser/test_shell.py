"""The frame around the pages, as a browser meets it: addresses, the door, who is who."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import Page, expect

from core.texts import texts
from core.ui import identity
from core.ui.shell import ENTRIES
from tests.browser.conftest import ARGUMENTS, BROWSER_SECONDS, settled

ADDRESSES = [f"/{entry.url_path}" for entry in ENTRIES]
OWN_TITLES = {f"/{entry.url_path}": texts("vi")(f"shell.page.{entry.name}") for entry in ENTRIES}
# Each has a server of its own: the entry, a page whose file is named like its address, and one
# whose file is not.
FIRST_ADDRESSES = ["/", "/preflight", "/feed-the-gpu"]
UNKNOWN_TITLE = "Không có trang này"
CODE = "mùa-thu 8B"


def visit(page: Page, url: str) -> None:
    page.goto(url)
    settled(page)


def name_field(page: Page):
    return page.get_by_label("Tên của bạn (không bắt buộc)")


def give_name(page: Page, name: str) -> None:
    name_field(page).fill(name)
    name_field(page).press("Enter")
    settled(page)


def code_shown_to(page: Page) -> str:
    """The return code, which stands for the student."""
    page.get_by_role("button", name="Mã quay lại").click()
    page.get_by_role("button", name="Xem mã của tôi").click()
    code = page.get_by_test_id("stCode").inner_text().strip()
    page.keyboard.press("Escape")
    return code


def use_code(page: Page, code: str) -> None:
    page.get_by_role("button", name="Mã quay lại").click()
    page.get_by_label("Nhập mã bạn đã cất").fill(code)
    page.get_by_role("button", name="Mở lại bài của tôi").click()
    settled(page)


def expect_no_dialog(page: Page) -> None:
    expect(page.get_by_role("dialog")).to_have_count(0)


# Addresses. Streamlit serves the folder pages/ without the entry script until somebody has been at
# the entry, so each of these visits is the first one that its server gets.


def test_every_page_is_found_by_its_address_in_its_frame(lab_server, page):
    for address in ADDRESSES:
        visit(page, lab_server.url + address)
        expect(page).to_have_title(re.compile(f"^{re.escape(OWN_TITLES[address])}"))
        expect(page.get_by_test_id("stSidebarNavLink")).to_have_count(len(ENTRIES))
        expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.parametrize("address", FIRST_ADDRESSES)
def test_a_first_visit_to_any_page_of_a_fresh_server_finds_it_in_its_frame(
    start_server, page, address
):
    visit(page, start_server().url + address)
    expect(page).to_have_title(re.compile(f"^{re.escape(OWN_TITLES[address])}"))
    expect(page.get_by_test_id("stSidebarNavLink")).to_have_count(len(ENTRIES))
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect_no_dialog(page)


@pytest.mark.parametrize("address", FIRST_ADDRESSES)
def test_with_a_class_code_a_first_visit_to_any_page_meets_the_door(start_server, page, address):
    visit(page, start_server(LAB_CLASS_CODE=CODE).url + address)
    expect(page.get_by_label("Mã lớp")).to_be_visible()
    expect(page.get_by_test_id("stSidebarNavLink")).to_have_count(0)
    expect(page.get_by_test_id("stHeading")).to_have_count(1)  # nothing of the page is drawn
    expect_no_dialog(page)

    page.get_by_label("Mã lớp").fill(CODE)
    page.get_by_role("button", name="Vào lớp").click()
    expect(page.get_by_test_id("stSidebarNavLink")).to_have_count(len(ENTRIES))
    expect(page).to_have_title(re.compile(f"^{re.escape(OWN_TITLES[address])}"))
    assert page.url.endswith(address)

    page.reload()
    settled(page)
    expect(page.get_by_label("Mã lớp")).to_have_count(0)


@pytest.mark.parametrize("address", ["/no-such-page", "/cpu_or_gpu", "/home", "/no/such/page"])
def test_a_first_visit_to_an_unknown_address_finds_a_kind_page(start_server, page, address):
    visit(page, start_server().url + address)
    expect(page.get_by_role("heading", name=UNKNOWN_TITLE)).to_be_visible()
    expect_no_dialog(page)

    page.get_by_test_id("stMain").get_by_text(OWN_TITLES["/cpu-or-gpu"]).click()
    expect(page).to_have_title(re.compile(f"^{re.escape(OWN_TITLES['/cpu-or-gpu'])}"))


def test_a_setting_with_a_wrong_name_is_told_on_the_page(start_server, page):
    visit(page, start_server(LAB_CPU_THREDS="2").url)
    expect(page.get_by_test_id("stAlert")).to_contain_text("LAB_CPU_THREADS")
    expect(page.get_by_test_id("stException")).to_have_count(0)


# Language and size


def test_the_language_switches_in_place_and_stays_through_pages_and_reloads(lab_server, page):
    visit(page, f"{lab_server.url}/cpu-or-gpu")
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    chosen = slider.get_attribute("aria-valuenow")
    assert chosen != "100"

    page.get_by_role("radio", name="en").click()
    expect(page).to_have_title(re.compile("^1 · CPU or GPU?"))
    settled(page)
    assert page.get_by_role("slider").first.get_attribute("aria-valuenow") == chosen
    assert "lang=en" in page.url

    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Home").click()
    expect(page).to_have_title(re.compile("^Home"))
    settled(page)
    assert "lang=en" in page.url

    page.reload()
    settled(page)
    expect(page).to_have_title(re.compile("^Home"))


def test_the_projector_switch_makes_all_text_larger_and_survives_a_reload(lab_server, page):
    visit(page, lab_server.url)
    size = "() => parseFloat(getComputedStyle(document.documentElement).fontSize)"
    before = page.evaluate(size)
    page.get_by_text("Chế độ máy chiếu").click()
    page.wait_for_function(f"({size})() > {before}")
    page.reload()
    settled(page)
    assert page.evaluate(size) > before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_fonts_come_from_the_lab_itself_and_have_vietnamese_letters(
    lab_server, chromium, scheme
):
    context = chromium.new_context(color_scheme=scheme)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    visit(page, lab_server.url)
    page.evaluate("() => document.fonts.ready")
    assert page.evaluate("() => document.fonts.check('16px \"Be Vietnam Pro\"', 'ữợĐ')")
    assert any("be-vietnam-pro-vietnamese-400" in url for url in asked)
    away = [url for url in asked if not url.startswith((lab_server.url, "data:", "blob:"))]
    assert away == [], "the page needs the internet"
    context.close()


# Who is who


def test_a_reload_and_a_second_tab_are_the_same_student_and_another_browser_is_not(
    lab_server, page, new_page
):
    visit(page, lab_server.url)
    give_name(page, "Lan")
    page.reload()
    settled(page)
    expect(name_field(page)).to_have_value("Lan")

    second = page.context.new_page()
    visit(second, page.url)
    expect(name_field(second)).to_have_value("Lan")

    other = new_page()
    visit(other, page.url)  # the address as read off a projector
    expect(name_field(other)).to_have_value("")


def test_two_tabs_that_open_at_once_are_one_student(lab_server, page):
    second = page.context.new_page()
    page.goto(lab_server.url, wait_until="commit")
    second.goto(lab_server.url, wait_until="commit")
    settled(page)
    settled(second)
    assert code_shown_to(page) == code_shown_to(second)


def test_the_token_is_neither_in_the_address_nor_within_reach_of_a_script(lab_server, page):
    visit(page, lab_server.url)
    cookie = next(c for c in page.context.cookies() if c["name"] == identity.COOKIE)
    assert identity.is_token(cookie["value"])
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    assert cookie["value"] not in page.url
    assert identity.COOKIE not in page.evaluate("() => document.cookie")


def test_a_forged_cookie_is_replaced(lab_server, page):
    forged = {"name": identity.COOKIE, "value": "1' OR '1'='1", "url": lab_server.url}
    page.context.add_cookies([forged])
    visit(page, lab_server.url)
    give_name(page, "Minh")
    cookie = next(c for c in page.context.cookies() if c["name"] == identity.COOKIE)
    assert identity.is_token(cookie["value"])
    page.reload()
    settled(page)
    expect(name_field(page)).to_have_value("Minh")


def test_a_return_code_brings_the_student_to_another_browser_for_good(lab_server, page, new_page):
    visit(page, lab_server.url)
    give_name(page, "Hương")
    code = code_shown_to(page)

    other = new_page()
    visit(other, lab_server.url)
    give_name(other, "Tuấn")
    use_code(other, code)
    expect(name_field(other)).to_have_value("Hương")
    other.reload()
    settled(other)
    expect(name_field(other)).to_have_value("Hương")


def test_where_cookies_are_blocked_the_page_says_so_and_the_code_still_works(
    lab_server, chromium, chromium_path, tmp_path
):
    blocked = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (tmp_path / "Default").mkdir()
    (tmp_path / "Default" / "Preferences").write_text(json.dumps(blocked))
    context = chromium.browser_type.launch_persistent_context(
        tmp_path, executable_path=chromium_path, args=ARGUMENTS
    )
    page = context.new_page()
    page.set_default_timeout(BROWSER_SECONDS * 1000)
    visit(page, lab_server.url)
    expect(page.get_by_text("đang chặn cookie")).to_be_visible()
    give_name(page, "Hoa")
    code = code_shown_to(page)

    page.reload()
    settled(page)
    expect(name_field(page)).to_have_value("")
    use_code(page, code)
    expect(name_field(page)).to_have_value("Hoa")
    context.close()


# The end


def test_a_server_with_visitors_ends_and_leaves_no_process(start_server, page):
    server = start_server()
    visit(page, f"{server.url}/cpu-or-gpu")
    page.get_by_role("button", name="Chạy").first.click()
    deadline = time.monotonic() + BROWSER_SECONDS
    while not server.children():
        assert time.monotonic() < deadline, "no worker process was started"
        time.sleep(0.05)
    server.stop()  # fails by itself if a process is left
    assert "Traceback" not in server.output()
