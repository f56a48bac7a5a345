"""Names of months, and words for "yesterday" and "last week", in the languages whose plain words mean nothing else."""

from __future__ import annotations

__all__ = ["ENGLISH_MONTHS", "MONTHS", "MONTH_ABBREVIATIONS", "PHRASES", "UNSPACED_PHRASES"]


def _numbered(names: str) -> dict[str, int]:
    return {name: number for number, each in enumerate(names.split(), 1) for name in each.split("/")}


ENGLISH_MONTHS = _numbered("january february march april may june july august september october november december")
MONTH_ABBREVIATIONS = _numbered("jan feb mar apr may jun jul aug sep/sept oct nov dec")
MONTHS = {
    # German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Polish (the genitive, as in dates)
    **_numbered("januar/jänner februar märz april mai juni juli august september oktober november dezember"),
    **_numbered("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    **_numbered("enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre"),
    **_numbered("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
    **_numbered("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"),
    **_numbered("januari februari maart april mei juni juli augustus september oktober november december"),
    **_numbered("januari februari mars april maj juni juli augusti september oktober november december"),
    **_numbered("stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia"),
    **MONTH_ABBREVIATIONS,
    **ENGLISH_MONTHS,
}
"""Number of the month by its lower-case name."""

# A phrase, the unit it names, and how many of them it lies from now.
PHRASES = {
    **dict.fromkeys(("today", "tonight", "this morning", "this afternoon", "this evening"), ("day", 0)),
    **dict.fromkeys(("heute", "aujourd'hui", "hoy", "oggi", "hoje", "vandaag", "idag", "dzisiaj"), ("day", 0)),
    **dict.fromkeys(("diese woche", "cette semaine", "esta semana", "questa settimana", "deze week"), ("week", 0)),
    **dict.fromkeys(
        ("letzte woche", "vergangene woche", "vorige woche", "la semaine dernière", "la semana pasada",
         "settimana scorsa", "semana passada", "vorige week", "afgelopen week", "förra veckan", "w zeszłym tygodniu"),
        ("week", -1),
    ),
    **dict.fromkeys(
        ("letztes wochenende", "le week-end dernier", "el fin de semana pasado", "vorig weekend", "afgelopen weekend"),
        ("weekend", -1),
    ),
    **dict.fromkeys(("diesen monat", "ce mois-ci", "este mes", "questo mese", "este mês", "deze maand"), ("month", 0)),
    **dict.fromkeys(
        ("letzten monat", "vergangenen monat", "vorigen monat", "le mois dernier", "el mes pasado", "mese scorso",
         "mês passado", "vorige maand", "afgelopen maand", "förra månaden", "w zeszłym miesiącu"),
        ("month", -1),
    ),
    **dict.fromkeys(("dieses jahr", "cette année", "este año", "quest'anno", "este ano", "dit jaar"), ("year", 0)),
    **dict.fromkeys(
        ("letztes jahr", "vergangenes jahr", "voriges jahr", "l'année dernière", "el año pasado", "l'anno scorso",
         "ano passado", "vorig jaar", "afgelopen jaar", "förra året", "w zeszłym roku"),
        ("year", -1),
    ),
}  # fmt: skip

# Scripts without spaces between words; Korean is written together with its particles.
UNSPACED_PHRASES = {
    **dict.fromkeys(("今天", "今日", "오늘", "วันนี้"), ("day", 0)),
    **dict.fromkeys(("昨天", "昨晚", "昨日", "昨夜", "어제", "เมื่อวาน"), ("day", -1)),
    **dict.fromkeys(("前天", "一昨日", "おととい", "그저께"), ("day", -2)),
    **dict.fromkeys(("本周", "本週", "这周", "這週", "今週", "이번 주", "สัปดาห์นี้"), ("week", 0)),
    **dict.fromkeys(("上周", "上週", "上星期", "上个星期", "上個星期", "先週", "지난주", "สัปดาห์ที่แล้ว"), ("week", -1)),
    **dict.fromkeys(("上周末", "上週末", "先週末", "지난 주말"), ("weekend", -1)),
    **dict.fromkeys(("本月", "这个月", "這個月", "今月", "이번 달", "เดือนนี้"), ("month", 0)),
    **dict.fromkeys(("上个月", "上個月", "上月", "先月", "지난달", "เดือนที่แล้ว"), ("month", -1)),
    **dict.fromkeys(("今年", "올해", "ปีนี้"), ("year", 0)),
    **dict.fromkeys(("去年", "昨年", "작년", "ปีที่แล้ว"), ("year", -1)),
}
