"""Common words and scripts without spaces, for all indexes (data).

Searches ignore common words. They are listed in the folded form of `terms`: English, Russian,
Arabic. Without those of German and Spanish as many questions lost their first hit as gained it,
since such words also select the language of an answer.
"""

import re
from typing import Final

COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        " a about an and any are as at be been but by can could d did do does doing done"
        " for from had has have he her him his how i if in is it its ll m me my of on or"
        " our please re s she should so t tell than that the their them then there these"
        " they this to us ve was we were what when where which who whom whose why will"
        " with would you your"
        " а бы был была были было быть в вам вас весь во вот все вы где для до его ее если"  # noqa: RUF001 - Cyrillic is meant
        " есть еще же за и из или им их к как какая какие каким каких какого какое какои"
        " какому какую ко когда кого которыи кто ли мне мои мы на над не него нее нет ни"
        " но о об он она они от по почему при с сколько со так то тот ты у чего чем что"  # noqa: RUF001 - Cyrillic is meant
        " чтобы эта эти это этот я"
        " التي الذي الى ان او اي ايضا اين بعد بين تم ثم ذلك على عن عند في قبل قد كان كانت"
        " كم كما كيف لا لم لماذا ما ماذا متى مع من منذ هذا هذه هل هو هي و",
    )
)
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Khmer, Myanmar, kana, Han, Hangul, as ranges of a regular expression."""
