// The reader of minisign's signatures.
import { OperatorError } from '../../src/base/errors.ts'
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
}
