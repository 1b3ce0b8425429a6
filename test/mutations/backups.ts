// What a place for backups gives back: the manifest and the contents of a backup, which whoever can write there may
// have written.
import assert from 'node:assert/strict'
import { parseContents } from '../../src/archive/backup-archive.ts'
import { nameOf, parseManifest, readName } from '../../src/archive/catalog.ts'
import { around, type Parser } from './parser.ts'

const FINGERPRINT = '0123456789abcdef'.repeat(2)
const NAME = nameOf(Date.UTC(2026, 0, 15), FINGERPRINT, true)
const begin = JSON.stringify({
  format: 1,
  name: NAME,
  made_at: '2026-01-15T00:00:00.000Z',
  size: 1,
  sha256: 'ab'.repeat(32),
  plain: 1,
  files: 1,
  fingerprint: FINGERPRINT,
  version: '0.3.0',
  schema: 35,
  recipients: [],
}).slice(0, -1)

export const BACKUPS: Record<string, Parser> = {
  'the manifest of a backup': {
    files: ['archive/catalog.ts'],
    seeds: around([`${begin},"rows":{`, '"a":1,', '"b":1}}']),
    parse: (bytes) => {
      const text = bytes.toString()
      const read = parseManifest(text, NAME)
      if (read) {
        assert.equal(read.fingerprint, FINGERPRINT)
        assert.ok(Number.isSafeInteger(read.size) && read.size >= 0 && read.plain >= 0)
      }
      const name = readName(text.slice(0, 200))
      if (name) assert.ok(Number.isFinite(name.at))
    },
  },
  'the contents of a backup': {
    files: ['archive/backup-archive.ts'],
    seeds: around([`{"database":"${'ab'.repeat(32)}","objects":{`, `"${NAME}":[],`, `"b":["spool/a"]}}`]),
    parse: (bytes) => {
      const contents = parseContents(bytes.toString())
      for (const left of Object.values(contents?.objects ?? {})) assert.ok(left.every((name) => name.length < 300))
    },
  },
}
