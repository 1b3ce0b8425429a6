// What a parser of strangers' octets is to the mutations, and what such parsers are made from.
import { BODY_BOMBS, HEADER_BOMBS } from '../hostile/bombs.ts'

export interface Parser {
  /** The files of src/ that it tries. */
  files: readonly string[]
  /** What mutations begin with, of about so many octets. */
  seeds: (octets: number) => Buffer[]
  parse: (bytes: Buffer) => unknown
  /** Errors that belong to it. */
  declared?: (thrown: unknown) => boolean
}

/** Seeds that repeat a piece up to the size that is asked for. */
export const of =
  (...pieces: string[]) =>
  (octets: number): Buffer[] =>
    pieces.map((piece) =>
      Buffer.from(piece.repeat(Math.max(1, Math.ceil(octets / piece.length))).slice(0, octets), 'latin1'),
    )

/** Seeds with a beginning and an end, and a piece between them that is repeated. */
export const around =
  (...forms: (readonly [begin: string, piece: string, end: string])[]) =>
  (octets: number): Buffer[] =>
    forms.map(([begin, piece, end]) =>
      Buffer.from(
        begin + piece.repeat(Math.max(1, Math.floor((octets - begin.length - end.length) / piece.length))) + end,
        'latin1',
      ),
    )

/** Seeds of several kinds, in turn: each kind has an equal share, however many seeds it has. */
export const both =
  (...kinds: ((octets: number) => Buffer[])[]) =>
  (octets: number): Buffer[] => {
    const seeds = kinds.map((kind) => kind(octets))
    const most = Math.max(...seeds.map(({ length }) => length))
    return Array.from({ length: most }, (_, at) => seeds.map((kind) => kind[at % kind.length]!)).flat()
  }

/** Every bomb of test/hostile. */
export const bombs = (octets: number): Buffer[] =>
  [...Object.values(HEADER_BOMBS), ...Object.values(BODY_BOMBS)].map((bomb) => bomb(octets))

/** Octets as latin1 characters. */
export const text = (bytes: Buffer): string => bytes.toString('latin1')
