// The readers of minisign's signatures, and of the files of a release.
import assert from 'node:assert/strict'
import { OperatorError } from '../../src/base/errors.ts'
import { entryIn, machineOf, memberIn } from '../../src/archive/program-in.ts'
import { verifySums } from '../../src/archive/signature.ts'
import { good, signature } from '../archive/signature-vectors.ts'
import { around, both, of, type Parser } from './parser.ts'

export const RELEASES: Record<string, Parser> = {
  'signatures of releases': {
    files: ['archive/signature.ts'],
    seeds: both(
      () => [Buffer.from(signature)],
      around(['untrusted comment: ', 'x', signature.slice(signature.indexOf('\n'))]),
      of('\r\n', 'untrusted comment: \n', 'RUQA'),
    ),
    parse: (bytes) => {
      verifySums({ ...good, signature: bytes })
      return verifySums({ ...good, publicKey: bytes.toString('latin1') })
    },
    declared: (thrown) => thrown instanceof OperatorError,
  },
  'the headers of packages and tars': {
    files: ['archive/program-in.ts'],
    seeds: of(
      `data.tar.zst/   1767225600  0     0     100644  1234      \`\n`,
      `./usr/bin/postrider${'\0'.repeat(81)}${'0000755\0'.repeat(3)}${'00000001234\0'.repeat(2)}012345\0 0`,
      '\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\x01',
    ),
    parse: (bytes) => {
      const member = memberIn(bytes.subarray(0, 60))
      if (member) assert.ok(Number.isSafeInteger(member.size) && /^[\w.+-]{1,16}$/.test(member.name))
      const block = Buffer.alloc(512)
      bytes.copy(block)
      // With a sum that fits, so that what lies behind it is tried too.
      const sum = block.reduce((all, octet, at) => all + (at >= 148 && at < 156 ? 32 : octet), 0)
      for (const each of [
        block,
        Buffer.from(block).fill(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 156, 'latin1'),
      ]) {
        const entry = entryIn(each)
        if (entry) assert.ok(Number.isSafeInteger(entry.size) && entry.size >= 0 && entry.name.length <= 100)
      }
      machineOf(bytes)
    },
  },
}
