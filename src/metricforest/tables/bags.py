"""Texts as bags of tokens (words, runs of letters), and what two bags have in common.

A token is a 64-bit number made of its characters, so that bags of different tables compare without a
dictionary between them. Rare tokens weigh more: `Rarity` keeps how rare those of a table are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.compiled import kernel
from ..core.parallel import aside

IN_COMMON = (  # the columns of `in_common`; "lesser" and "greater" of what either text says
    "cosine",
    "greater share",
    "lesser share",
    "greater rest",
    "lesser rest",
    "greater rarest rest",
    "lesser rarest rest",
    "rarest",
    "tokens",
)


class Bags(NamedTuple):
    """The tokens of n texts, each once per text, rising."""

    ends: np.ndarray  # int64 [n + 1]    tokens of text i are ends[i]:ends[i + 1]
    token: np.ndarray  # uint64 [m]
    count: np.ndarray  # float64 [m]     how often the text has it


class Rarity(NamedTuple):
    """Inverse document frequencies; what stands in one text only, or in none, weighs `rest`."""

    token: np.ndarray  # uint64 [m], rising
    weight: np.ndarray  # float64 [m]
    rest: float


def words(texts: Sequence[str]) -> Bags:
    """Bags of what stands between spaces."""
    return bags(texts, 0)


def runs(texts: Sequence[str], length: int) -> Bags:
    """Bags of all runs of so many characters; a shorter text is one run."""
    return bags(texts, length)


def bags(texts: Sequence[str], length: int) -> Bags:
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    letters = "".join(texts).encode("utf-32-le", "surrogatepass")
    chars = np.frombuffer(letters, np.uint32)
    ends = np.zeros(len(texts) + 1, np.int64)
    token = np.empty(len(chars), np.uint64)
    count = np.empty(len(chars))
    aside(tokens_of, chars, starts, length, ends, token, count)
    return Bags(ends, token[: ends[-1]].copy(), count[: ends[-1]].copy())


@kernel
def tokens_of(chars, starts, length, ends, token, count):
    """Fill the bags of texts, cut at spaces (length 0) or into runs."""
    first, prime = np.uint64(14695981039346656037), np.uint64(1099511628211)  # FNV-1a
    filled = 0
    for i in range(len(starts) - 1):
        low, high = starts[i], starts[i + 1]
        begin = filled
        if length == 0:
            hashed, open_word = first, False
            for j in range(low, high):
                if chars[j] == 32:
                    if open_word:
                        token[filled] = hashed
                        filled += 1
                    hashed, open_word = first, False
                else:
                    hashed = (hashed ^ np.uint64(chars[j])) * prime
                    open_word = True
            if open_word:
                token[filled] = hashed
                filled += 1
        elif high > low:
            for j in range(low, max(low + 1, high - length + 1)):
                hashed = first
                for c in range(j, min(j + length, high)):
                    hashed = (hashed ^ np.uint64(chars[c])) * prime
                token[filled] = hashed
                filled += 1
        token[begin:filled] = np.sort(token[begin:filled])
        kept = begin
        for j in range(begin, filled):
            if j > begin and token[j] == token[kept - 1]:
                count[kept - 1] += 1.0
            else:
                token[kept], count[kept] = token[j], 1.0
                kept += 1
        filled = kept
        ends[i + 1] = filled


def rarity(of: Bags) -> Rarity:
    """How rare each token is among texts that have any."""
    n = int((np.diff(of.ends) > 0).sum())
    token, texts = np.unique(of.token, return_counts=True)
    often = texts > 1
    weight = np.log((1 + n) / (1 + texts[often])) + 1.0
    return Rarity(token[often], weight, float(np.log((1 + n) / 2) + 1.0) if n else 1.0)


def weights(of: Bags, rare: Rarity) -> np.ndarray:
    """The weight of every token of the bags."""
    if not len(rare.token):
        return np.full(len(of.token), rare.rest)
    place = np.minimum(np.searchsorted(rare.token, of.token), len(rare.token) - 1)
    return np.where(rare.token[place] == of.token, rare.weight[place], rare.rest)


def in_common(
    A: Bags, weight_a: np.ndarray, a: np.ndarray, B: Bags, weight_b: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """What texts ``a[i]`` of A and ``b[i]`` of B have in common: [n, 9], as `IN_COMMON` says.

    NaN where either text has no token. The same for a and b changed over.
    """
    answer = np.empty((len(a), len(IN_COMMON)))
    aside(compare_bags, *A, weight_a, a, *B, weight_b, b, answer)
    return answer


@kernel
def compare_bags(
    ends_a, token_a, count_a, weight_a, a, ends_b, token_b, count_b, weight_b, b, answer
):
    for p in range(len(a)):
        i, end_i = ends_a[a[p]], ends_a[a[p] + 1]
        j, end_j = ends_b[b[p]], ends_b[b[p] + 1]
        if i == end_i or j == end_j:
            answer[p] = np.nan
            continue
        sq_a = sq_b = dot = 0.0
        both = rest_a = rest_b = rarest = rarest_a = rarest_b = 0.0
        tokens = 0
        while i < end_i or j < end_j:
            if j == end_j or (i < end_i and token_a[i] < token_b[j]):
                w = weight_a[i]
                sq_a += w * w * count_a[i]
                rest_a += w
                rarest_a = max(rarest_a, w)
                i += 1
            elif i == end_i or token_b[j] < token_a[i]:
                w = weight_b[j]
                sq_b += w * w * count_b[j]
                rest_b += w
                rarest_b = max(rarest_b, w)
                j += 1
            else:
                w = weight_a[i]  # a token has one weight
                sq_a += w * w * count_a[i]
                sq_b += w * w * count_b[j]
                dot += w * w * np.sqrt(count_a[i] * count_b[j])
                both += w
                rarest = max(rarest, w)
                tokens += 1
                i += 1
                j += 1
        share_a, share_b = both / (both + rest_a), both / (both + rest_b)
        answer[p, 0] = dot / np.sqrt(sq_a * sq_b)
        answer[p, 1], answer[p, 2] = max(share_a, share_b), min(share_a, share_b)
        answer[p, 3], answer[p, 4] = max(rest_a, rest_b), min(rest_a, rest_b)
        answer[p, 5], answer[p, 6] = max(rarest_a, rarest_b), min(rarest_a, rarest_b)
        answer[p, 7], answer[p, 8] = rarest, tokens


def found_in(
    A: Bags, weight_a: np.ndarray, a: np.ndarray, B: Bags, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(share, rest) of the weight of text ``a[i]`` that text ``b[i]`` has and has not; NaN: no token."""
    share, rest = np.empty(len(a)), np.empty(len(a))
    aside(find, A.ends, A.token, weight_a, a, B.ends, B.token, b, share, rest)
    return share, rest


@kernel
def find(ends_a, token_a, weight_a, a, ends_b, token_b, b, share, rest):
    for p in range(len(a)):
        j, end_j = ends_b[b[p]], ends_b[b[p] + 1]
        there = gone = 0.0
        for i in range(ends_a[a[p]], ends_a[a[p] + 1]):
            while j < end_j and token_b[j] < token_a[i]:
                j += 1
            if j < end_j and token_b[j] == token_a[i]:
                there += weight_a[i]
            else:
                gone += weight_a[i]
        share[p] = there / (there + gone) if there + gone > 0.0 else np.nan
        rest[p] = gone if there + gone > 0.0 else np.nan


class Postings(NamedTuple):
    """In which texts each token stands: the bags, turned around."""

    token: np.ndarray  # uint64 [k], rising
    ends: np.ndarray  # int64 [k + 1]
    text: np.ndarray  # int64 [m], rising for a token
    part: np.ndarray  # float64 [m]    what the token adds to a cosine, times the other text's part


def parts(of: Bags, weight: np.ndarray) -> np.ndarray:
    """Tokens' parts of their texts as vectors of length 1."""
    part = weight * np.sqrt(of.count)
    text = np.repeat(np.arange(len(of.ends) - 1), np.diff(of.ends))
    length = np.sqrt(np.bincount(text, part * part, minlength=len(of.ends) - 1))
    return part / length[text]


def postings(of: Bags, weight: np.ndarray) -> Postings:
    text = np.repeat(np.arange(len(of.ends) - 1), np.diff(of.ends))
    order = np.argsort(of.token, kind="stable")
    token, first = np.unique(of.token[order], return_index=True)
    ends = np.append(first, len(order)).astype(np.int64)
    return Postings(token, ends, text[order], parts(of, weight)[order])


def nearest_texts(
    of: Bags, weight: np.ndarray, among: Postings, n: int, own: np.ndarray, k: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k texts nearest to each bag by cosine: (text [n, k], -1: none; cosine [n, k], 0: none).

    `n` texts are searched, each bag not among itself (`own`, -1: it is none of them). Bounded: for
    each bag, tokens are followed from the rarest on while their texts are `most` or fewer together.
    """
    shape = (len(of.ends) - 1, k)
    text, cosine = np.full(shape, -1, np.int64), np.zeros(shape)
    aside(
        search, of.ends, of.token, parts(of, weight), *among, own, most, np.zeros(n), text, cosine
    )
    return text, cosine


@kernel
def search(ends, token, part, word, stops, texts, parts_, own, most, total, found, cosine):
    touched = np.empty(len(total), np.int64)
    k = found.shape[1]
    for i in range(len(ends) - 1):
        low, high = ends[i], ends[i + 1]
        place = np.searchsorted(word, token[low:high])
        length = np.zeros(high - low, np.int64)
        for j in range(high - low):
            if place[j] < len(word) and word[place[j]] == token[low + j]:
                length[j] = stops[place[j] + 1] - stops[place[j]]
        n_touched = read = 0
        for j in np.argsort(length, kind="mergesort"):
            if length[j] == 0:
                continue
            read += length[j]
            if read > most:
                break
            for p in range(stops[place[j]], stops[place[j] + 1]):
                if total[texts[p]] == 0.0:
                    touched[n_touched] = texts[p]
                    n_touched += 1
                total[texts[p]] += part[low + j] * parts_[p]
        for t in touched[:n_touched]:
            value = total[t]
            total[t] = 0.0
            if t == own[i]:
                continue
            at = k  # its place among the nearest so far; of equally near ones the first text is first
            while at > 0 and (
                value > cosine[i, at - 1] or (value == cosine[i, at - 1] and t < found[i, at - 1])
            ):
                at -= 1
            for later in range(k - 1, at, -1):
                cosine[i, later], found[i, later] = cosine[i, later - 1], found[i, later - 1]
            if at < k:
                cosine[i, at], found[i, at] = value, t
