"""What a text is to the search: lower case without accents.

Made for every message that is stored and looked at, by threads that share the interpreter's lock
with the event loop. So no loop in Python goes over characters, and no single call that keeps the
lock takes more than a moment: for a text of 1 MB it was 60 to 300 ms, now it is 0.4 if the text is
ASCII, and 30 to 60 if not, in pieces of under 1.
"""

import re
import unicodedata
from functools import cache

# At once, of a text that is not ASCII: the slowest call takes under 1 ms for so many.
CHARS = 8_192
# All characters that combine are between these, also in versions of Unicode to come: below are
# Latin, IPA and modifiers, above are emoji and ideographs. A test goes through all there are.
_FIRST, _END = 0x300, 0x1F000


def plain(words: str) -> str:
    """Lower case without accents: what is stored and what is looked for.

    Character by character: that of two texts joined is that of each, joined.
    """
    if words.isascii():
        return words.lower()
    if len(words) > CHARS:
        return "".join(plain(words[at : at + CHARS]) for at in range(0, len(words), CHARS))
    near, far, table = _marks()
    decomposed = near.sub("", unicodedata.normalize("NFKD", words.casefold()))
    if far.search(decomposed):
        decomposed = decomposed.translate(table)
    return decomposed


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str], dict[int, None]]:
    """What finds the characters that combine: those of 16 bits, and what may be another one.

    Python looks up a set of 16-bit characters in a table but goes through the others' ranges one
    after the other, for every character: 10 and 200 ns. The others are rare, so they are taken out
    by the third, 70 ns a character, if need be. Made when it is needed first: it takes 10 ms.
    """
    marks = [code for code in range(_FIRST, _END) if unicodedata.combining(chr(code))]
    near = "".join(chr(code) for code in marks if code <= 0xFFFF)
    far = f"\U00010000-{chr(_END - 1)}"
    return re.compile(f"[{near}]"), re.compile(f"[{far}]"), dict.fromkeys(marks)
