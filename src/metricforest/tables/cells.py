"""What is read in a cell: plain text for comparing, the numbers in it, and a number or a date.

Reading is bounded: a cell counts with its first `LONGEST` characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, datetime
from html import unescape

LONGEST = 4_000  # characters of a cell that are read
NUMBERS = re.compile(r"\d+(?:\.\d+)*")
NEITHER = re.compile(r"[^\w.]+|_+")  # what separates words, beside the dots below
LOOSE_DOT = re.compile(r"\.(?!\d)|(?<!\d)\.")  # a dot that is not inside a number
ALONE = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
CLOCK = re.compile(r"(\d+)\s*:\s*(\d\d)(?:\s*:\s*(\d\d))?")
DATE_PART = re.compile(r"\d+|[^\W\d_]+")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
BESIDE = 4  # characters that may stand beside a number: "$ 1.29", "8.1 %", "85 in"
MONTHS = {
    month: number
    for number, month in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
CENTURY = 70  # '70 is 1970, '69 is 2069
ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})([T ].*)?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain(text: str) -> str:
    """Words in small letters without accents, one space between them; "" where there is nothing."""
    text = text[:LONGEST]
    if "&" in text:
        text = unescape(text)  # &#40; and &amp; of web pages
    text = text.casefold()
    if not text.isascii():
        letters = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = LOOSE_DOT.sub(" ", NEITHER.sub(" ", text)).split()
    return " ".join(words or text.split())  # signs alone, as of a row of emoji, stay what they are


def whole(text: str) -> str:
    """The text, without halves of letters, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def numbers_in(text: str) -> str:
    """The numbers of a plain text, each in one way of writing, with spaces between them."""
    return " ".join(one_way(digits) for digits in NUMBERS.findall(text))


def one_way(digits: str) -> str:
    """7, 007 and 7.0 are one number; 1.2.3 stays as it is."""
    if digits.count(".") == 1:
        digits = digits.rstrip("0").rstrip(".")
    return digits.lstrip("0") or "0"


def read_number(text: str) -> float:
    """The number that a cell holds: a plain one, one with a unit or sign, or a time; NaN if none."""
    text = text[:LONGEST].strip()
    clock = CLOCK.fullmatch(text)
    if clock:
        seconds = 0
        for part in clock.groups():
            seconds = seconds * 60 + int(part) if part else seconds
        return float(seconds)
    text = THOUSANDS.sub("", text)
    found = ALONE.findall(text)
    if len(found) == 1 and len(text) <= len(found[0]) + BESIDE:
        number = float(found[0])
        return number if math.isfinite(number) else math.nan
    return math.nan


def read_date(text: str) -> float:
    """Days since 1970 of a cell with a date: year first, or with the month in (English) letters."""
    text = text[:LONGEST].strip()
    iso = ISO.fullmatch(text)
    try:
        if iso:
            return days(int(iso[1]), int(iso[2]), int(iso[3]))
        parts = DATE_PART.findall(text.casefold())
        months = [MONTHS[part[:3]] for part in parts if part[:3] in MONTHS]
        numbers = [part for part in parts if part.isdecimal()]
        if len(months) != 1 or len(numbers) != 2 or len(parts) > 4:
            return math.nan
        day, year = sorted(numbers, key=len) if len(numbers[0]) != len(numbers[1]) else numbers
        short = int(year) + (2000 if int(year) < CENTURY else 1900)
        return days(int(year) if len(year) == 4 else short, months[0], int(day))
    except ValueError:  # there is no such day
        return math.nan


def days(year: int, month: int, day: int) -> float:
    return float((datetime(year, month, day, tzinfo=UTC) - EPOCH).days)
