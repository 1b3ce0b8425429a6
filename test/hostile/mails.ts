// The messages of the hostile runs: corpora if there are any, bombs, and seeded mutations of both. POSTRIDER_HOSTILE is
// the number, POSTRIDER_HOSTILE_SEED the seed.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mutate } from '../mutations/mutate.ts'
import { BODY_BOMBS, HEADER_BOMBS } from './bombs.ts'

export const MANY = Number(process.env['POSTRIDER_HOSTILE'] ?? 30)
const SEED = Number(process.env['POSTRIDER_HOSTILE_SEED'] ?? 1)
const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
/**
 * A header bomb has the maximum size of a header. The others have this size, and every fifth in the long run the larger
 * one.
 */
const HEADER = 250_000
const BODY = 200_000
const LARGE = 8_000_000

function corpus(): Buffer[] {
  const files = (folder: string): string[] =>
    existsSync(folder)
      ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
          .filter((name) => /\.(?:msg|eml|txt)$/.test(name) && !/LICENSE|decoded/.test(name))
          .map((name) => join(folder, name))
      : []
  return ['bounces', 'mime', 'dkim', 'reports']
    .flatMap((folder) => files(join(CORPORA, folder)))
    .map((file) => readFileSync(file))
}

/** SMTP accepts only whole lines. */
const lines = (bytes: Buffer): Buffer => Buffer.from(bytes.toString('latin1').replace(/\r\n?|\n/g, '\r\n'), 'latin1')

/** MANY hostile emails with CRLF at the end of every line, the same ones for a seed. */
export function* hostile(): Iterable<Buffer> {
  const mails = corpus()
  const bombs = [
    ...Object.values(HEADER_BOMBS).map((make) => make(HEADER)),
    ...Object.values(BODY_BOMBS).map((make, at) => make(MANY >= 1000 && at % 5 === 0 ? LARGE : BODY)),
  ]
  const seeds = [...mails, ...bombs.map((bomb) => bomb.subarray(0, 20_000))]
  const all = [...bombs, ...mails]
  // The short run takes some of each.
  const step = Math.max(1, Math.ceil(all.length / (MANY * 0.75)))
  let count = 0
  for (let at = SEED % step; at < all.length && count < MANY; at += step, count++) yield lines(all[at]!)
  for (; count < MANY; count++)
    yield lines(mutate(seeds[count % seeds.length]!, seeds[(count * 7) % seeds.length]!, SEED * 1_000_000 + count))
}
