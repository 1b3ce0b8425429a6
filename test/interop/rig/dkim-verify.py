# Judges a letter with dkimpy: argv[1] is the letter, argv[2] a JSON object of DNS name -> TXT record.
# Prints one line per DKIM-Signature; exit 0 only when there is one and all of them hold.

import json
import sys

import dkim

with open(sys.argv[1], 'rb') as file:
    letter = file.read()
with open(sys.argv[2], encoding='utf-8') as file:
    records = json.load(file)


def txt(name, timeout=5):
    record = records.get(name.decode('ascii').rstrip('.').lower())
    return record.encode('ascii') if record else None


judge = dkim.DKIM(letter)
signatures = sum(1 for name, _ in judge.headers if name.lower() == b'dkim-signature')
if signatures == 0:
    print('no DKIM-Signature')
    sys.exit(1)

good = True
for index in range(signatures):
    try:
        verdict = judge.verify(idx=index, dnsfunc=txt)
        why = 'pass' if verdict else 'fail: signature does not match'
    except dkim.DKIMException as error:
        verdict, why = False, 'fail: %s' % error
    print('%s %s' % ((judge.domain or b'?').decode('ascii', 'replace'), why))
    good = good and verdict
sys.exit(0 if good else 1)
