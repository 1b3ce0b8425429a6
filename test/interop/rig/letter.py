# What Python's own email package (policy=default, the strict modern one) makes of letters: argv[1:] are files, the
# answer is one JSON list. `defects` collects what the parser complains of in the message, its parts and each of its
# header fields.

import json
import sys
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.utils import getaddresses


def addresses(octets, name):
    # Through the older, lenient API: Python 3.11's strict one leaves a space between two encoded words of a name, where
    # RFC 2047 section 6.2 has none.
    fields = message_from_bytes(octets, policy=policy.compat32).get_all(name, [])
    return [[str(make_header(decode_header(each))), address] for each, address in getaddresses(fields)]


def describe(path):
    with open(path, 'rb') as file:
        octets = file.read()
    message = message_from_bytes(octets, policy=policy.default)
    parts = {}
    defects = []
    for part in message.walk():
        if not part.is_multipart():
            # Decoding comes first: it is what finds broken encodings.
            content = part.get_content()
            # Attachments are told by their names and lengths.
            if part.get_filename() is not None:
                parts['file %s' % part.get_filename()] = str(len(content))
            else:
                parts[part.get_content_type()] = content
        defects += ['%s: %r' % (part.get_content_type(), defect) for defect in part.defects]
        for name, value in part.items():
            defects += ['%s: %r' % (name, defect) for defect in value.defects]
    return {
        'defects': defects,
        'names': [name.lower() for name in message.keys()],
        'subject': str(message['subject']),
        'date': str(message['date']),
        'from': addresses(octets, 'from'),
        'to': addresses(octets, 'to'),
        'reply_to': addresses(octets, 'reply-to'),
        'type': message.get_content_type(),
        'parts': parts,
        'longest': max(len(line) for line in octets.split(b'\r\n')),
        'ascii': octets.isascii(),
    }


print(json.dumps([describe(path) for path in sys.argv[1:]]))
