// Parsers of data from backup destinations: encrypted files, and the XML of S3.
import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { OperatorError } from '../../src/base/errors.ts'
import { identitiesIn, recipientFault, recipientOf, DecryptionFault, decrypted } from '../../src/archive/encryption.ts'
import { readElements } from '../../src/archive/destinations/s3-xml.ts'
import { around, both, of, text, type Parser } from './parser.ts'

// Always the same, so that what is found is found again.
const identity = 'AGE-SECRET-KEY-1KPSSJJ5Q3CFRXQKZQQEK42T6PDNW3UYU98XYTL9UXA9CPCJ544QS2UAWXJ'
const recipient = await recipientOf(identity)

async function* once(octets: Uint8Array): AsyncIterable<Uint8Array> {
  yield octets
}

const PLAIN = Buffer.from('mail')
/** `PLAIN`, sealed to another recipient and to this one. */
const SEALED = Buffer.from(
  [
    'YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBURjlPNnVYSjNIWXYvY0JIWXIxWE1IREhJTW9RZ2FoZkptVitRVXFXSHpZ',
    'CnRLRGdSS0djOXJHZ3ZydjROUjNKZDZFRlBpeXhQTmRmWlNwTXVwWkRDbXcKLT4gWDI1NTE5IElYZzRiSHZaaTdLalVDUXFuUStr',
    'QjdFK2pUSlAzMnpHTlBxYll2U05tSGMKWCtBYTRRdUJkSjlkVVR5M2xYWHE1QnVaTHFoQWgyQitYRU80ZlI4SHcwdwotLS0gTm9o',
    'RUxxM2xvOVI4WjZFbDlGeUwxdUJ3RytjRG1peEdweVlTQjE4czloYwr5wK+ip0gdOgsQ82enPIOyK/U08pwRZfEFKo93MS8AHRCp',
    '73U=',
  ].join(''),
  'base64',
)

export const KEPT: Record<string, Parser> = {
  'a sealed stream': {
    files: ['archive/encryption.ts', 'archive/byte-reader.ts'],
    seeds: both(
      () => [SEALED],
      around(
        ['age-encryption.org/v1\n', '-> X25519 a\nb\n', '--- '],
        ['age-encryption.org/v1\n-> x\n', `${'A'.repeat(64)}\n`, '\n---'],
      ),
      of(`${recipient}\n`, `${identity}\n`),
    ),
    async parse(bytes) {
      const line = text(bytes)
      recipientFault(line)
      try {
        identitiesIn(line, 'a file')
      } catch (thrown) {
        assert.ok(thrown instanceof OperatorError)
      }
      assert.deepEqual(await buffer(decrypted(once(bytes), [identity])), PLAIN)
    },
    declared: (thrown) => thrown instanceof DecryptionFault,
  },
  'the XML of S3': {
    files: ['archive/destinations/s3-xml.ts'],
    seeds: both(
      around(
        ['<ListBucketResult>', '<Contents><Key>a</Key><Size>1</Size></Contents>', '</ListBucketResult>'],
        ['<D:a xmlns:D="D:">', '<D:b><D:c>/a&amp;</D:c></D:b>', '</D:a>'],
        ['<a>', '<b>', '</a>'],
        ['<a>', '<![CDATA[b]]>', '</a>'],
        ['<!DOCTYPE a [<!ENTITY b "', 'c', '">]><a>&b;</a>'],
      ),
      of('<a b="c"/>', '<a><!-- -->', '&lt;'),
    ),
    parse: (bytes) => {
      const elements = readElements(bytes) ?? []
      const size = elements.reduce((sum, { text: said }) => sum + said.length, 0)
      assert.ok(size <= bytes.length && elements.length <= bytes.length / 4)
    },
  },
}
