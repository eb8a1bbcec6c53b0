# ruff: noqa: RUF001 - words of other scripts are meant
"""Words before a full stop that does not end a sentence, without regard to case (data)."""

from typing import Final

_ABBREVIATIONS: Final = """
abs abzgl adj adm adv akad al allg alm anm aparc apart apdo appos approx appt apr apto arch arr
assoc asst attn atty aufl aug ausg av avda ave avv añ bact beil belg bes betr bijv bldg boul
bros bul ca capt cert cf chap chem cia cie co col comdr comm corp cpl cresc ctra dcha dep dept
depto dhr diag dipl dir dist doc dott dpto dr dra ecc eccl eds eg ehem elec eng env esim esp esq
est estr etc ets etw evt evtl excl excmo exkl exmo ext fam fasc fax febbr febr fem fig figg fls
frl geb gebr gem gen geogr geom gesch gest giud godz gouv gov govt gral hab habil hinw hon hosp
hrsg ibid id idem ie illus illustr imp impr inc incl indef inf ing inkl insp int intl inż ital
jahrh janv jne jr juil jul jun kap kath kuol lat led lek lfd lic lieut ltda luit luth maj manuf
masc math max med mej messrs mevr mfr mgr mil min mind mio misc mlle mme monatl mons mr mtg mudr
mus méd müh nachm najs nam nat neg nov np nr nro nám núm obj obs obst occ oct okt ong opp orig
pag pagg par paras pgs phil phys pict pizz pl poc popř poss posth pow pref prel prep pres prim
priv proc prof profa prop pror prot prov pseud publ punt pág págs příp qual rec rect ref reg rel
res resp ret rev rif roz rua réf sal sched schw schweiz sci sec sect sen sept ser serg sess sgt
sig sigg sigra soc soed sog sogg spec sr sra srta ssa sta stat ste stellv sto str sup suppl supt
surg syn synt tel temp ter tfno thur thurs tip tit tlf transl trav tues tur tägl tél ud uds ul
ungef univ unk urb urspr usw vergl verh verw viz vol vols vorm vulg vyd wed wiss woj wöch zag
zam zast zob zt zus zuz österr švč župn αγ αρ δηλ δρ εκδ κα καθ κλπ κος κτλ λεωφ οδ πλ σελ στρ
τηλ τμ χιλ авг акад апр буд бул вид вул вып гл гор госп див дир доц изд им ин инж исп каб кан кв
коп корп лит мин млн млрд мол наб нас обл обсл оз ок окт оф пер пл пос пр прим просп проф ред
рис руб сан св сек сел см соч ст стр табл тел тж тов тыс указ ул упр фам фев февр хар чел чл шт
экз эл янв
"""
# Capitalised abbreviations of up to three letters, and those without a vowel, need no entry.
_ANSWERS: Final = "hi hey yes yep ok oh ja nee oui non sim não tak nie yo да нет"

ABBREVIATIONS: Final = frozenset(_ABBREVIATIONS.split())
ANSWERS: Final = frozenset(_ANSWERS.split())
"""Short words that, capitalised, are often a whole sentence."""
