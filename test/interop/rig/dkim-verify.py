# Judges letters with dkimpy: argv[1] is a JSON object of DNS name -> TXT record, each other one a letter.
# Prints for each letter its path and "pass", or what dkimpy says.

import json
import sys

import dkim

with open(sys.argv[1], encoding='utf-8') as file:
    records = json.load(file)


def txt(name, timeout=5):
    record = records.get(name.decode('ascii').rstrip('.').lower())
    return record.encode('ascii') if record else None


def verdict(letter):
    judge = dkim.DKIM(letter)
    signatures = sum(1 for name, _ in judge.headers if name.lower() == b'dkim-signature')
    if signatures == 0:
        return 'no DKIM-Signature'
    for index in range(signatures):
        try:
            if not judge.verify(idx=index, dnsfunc=txt):
                return 'fail: signature does not match'
        except dkim.DKIMException as error:
            return 'fail: %s' % error
    return 'pass'


for path in sys.argv[2:]:
    with open(path, 'rb') as file:
        print(path, verdict(file.read()))
