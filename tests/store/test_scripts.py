"""What the analyser makes of each script, an engine keeps whole."""

import pytest

from neuralstream.analysis import analyse
from neuralstream.store.base import Where
from neuralstream.store.schema import TURNS

TEXTS = {
    "Chinese": "客户要的是增值税专用发票，下周二消防检查",
    "Japanese": "コンプレッサーの空気漏れは、まだ直っていない。〇・八パーセント々",
    "Thai": "หมอนัดแม่ตรวจตาวันที่ ๙ มีนาคม น้ำแข็ง",
    "Lao": "ດື່ມນ້ຳຫຼາຍໆ",
    "Khmer": "ខ្ញុំរៀនភាសាខ្មែរ",
    "Burmese": "ကျွန်တော် မြန်မာစာ လေ့လာနေပါတယ်",
    "Korean": "한국어를 공부합니다",
    "German": "Meine Haftpflichtversicherungsnummer für die Straße",
    "French": "L'œuvre préférée du kinésithérapeute à Thônes",
    "Polish": "Włodek łączy się z Łodzią",
    "Vietnamese": "Đường đến nhà bà ngoại",
    "Russian": "Номер договора лежит в синей папке, объезд",
    "Greek": "Τα συμβόλαια είναι στο συρτάρι",
    "Arabic": "رَقْمُ العَقْدِ ٤٤",
    "Hebrew": "מספר החוזה בתיקייה",
    "Hindi": "हिन्दी में बीमा संख्या",
    "Tamil": "காப்பீடு எண்",
    "identifiers": "ERR-1042 at 10.0.0.5:6379, v1.2.3",
}


@pytest.mark.parametrize("language", TEXTS)
def test_every_token_finds_its_document(store, make, user, language):
    """Each token by itself ranks the one text that holds it, so the engine neither splits nor drops nor alters it."""
    tokens = analyse(TEXTS[language])
    point = make(user, 1, terms=" ".join(tokens))
    store.upsert(TURNS, [point, make(user, 2, terms="nothing of that kind")])
    found = {token: store.text(TURNS, [token], "terms", Where(user, kind="turn"), 5, k1=0.9, b=0.4) for token in tokens}
    assert tokens
    assert {token: [hit.id for hit in hits] for token, hits in found.items()} == {token: [point.id] for token in tokens}
    assert all(hit.score > 0 for hits in found.values() for hit in hits)
