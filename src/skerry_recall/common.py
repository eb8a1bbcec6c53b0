"""Words that say nothing of what is looked for, without accents (data)."""

import re
from typing import Final

COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "a about an and any are as at be been but by can could did do does doing done for from had"
        " has have he her him his how i if in is it its me my of on or our please she should so"
        " tell than that the their them then there these they this to us was we were what when"
        " where which who whom whose why will with would you your s t d m ll ve re",
    )
)
