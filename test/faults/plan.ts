// Which call fails, and when: the n-th call of one family, once or from then on, until it is repaired. The counters are
// in shared memory, so that the worker threads of the server use them too.

export const FAMILIES = ['sqlite', 'fs', 'socket', 'worker'] as const
export type Family = (typeof FAMILIES)[number]

/** The kinds of failure of each family. */
export const KINDS = {
  /**
   * As SQLite behaves (vdbeaux.c, sqlite3VdbeHalt): on EIO and on a full disk it has rolled the whole transaction back,
   * and without memory it undoes the one statement. `late`: the commit is on the disk, but its sync reported a failure.
   */
  sqlite: ['ioerr', 'full', 'nomem', 'busy', 'cantopen', 'late'],
  fs: ['EIO', 'ENOSPC', 'EMFILE'],
  /**
   * `EPIPE`: the write fails and the connection is closed. `cut`: the write succeeds, and then the connection is
   * closed.
   */
  socket: ['EMFILE', 'EPIPE', 'cut', 'accept'],
  /** `hire`: no thread can be started. `die`: it ends over a job. */
  worker: ['hire', 'die'],
} as const satisfies Record<Family, readonly string[]>
export type Kind = (typeof KINDS)[Family][number]
const ALL_KINDS: readonly Kind[] = FAMILIES.flatMap((family) => [...KINDS[family]])

export interface Plan {
  family: Family
  kind: Kind
  /** The first call that fails, from 1. With 0, calls are only counted. */
  n: number
  /** All further calls fail as well, until it is healed. */
  lasting: boolean
}

const CELL = { armed: 0, family: 1, kind: 2, n: 3, lasting: 4, count: 5, struck: 6, said: 7 } as const
const CELLS = 8
/** Bytes for the labels of failed calls. */
const WORDS = 16 * 1024

/** Counts calls and decides which fail. There is one for each thread, with shared counters. */
export class Control {
  readonly #cells: Int32Array
  readonly #words: Uint8Array
  #quiet = 0
  /** Every call that was counted in this thread. */
  readonly calls: string[] = []
  /** Called before each call that could fail, even if it does not. */
  onCall: ((family: Family, label: string) => void) | undefined

  static memory = (): SharedArrayBuffer => new SharedArrayBuffer(CELLS * 4 + WORDS)

  constructor(memory: SharedArrayBuffer) {
    this.#cells = new Int32Array(memory, 0, CELLS)
    this.#words = new Uint8Array(memory, CELLS * 4)
  }

  arm({ family, kind, lasting, n }: Plan): void {
    this.calls.length = 0
    const cells = this.#cells
    cells[CELL.family] = FAMILIES.indexOf(family)
    cells[CELL.kind] = ALL_KINDS.indexOf(kind)
    cells[CELL.n] = n
    cells[CELL.lasting] = Number(lasting)
    cells[CELL.count] = 0
    cells[CELL.struck] = 0
    cells[CELL.said] = 0
    Atomics.store(cells, CELL.armed, 1)
  }

  heal(): void {
    Atomics.store(this.#cells, CELL.armed, 0)
  }

  /** Calls that could have failed since it was armed, in all threads. */
  get count(): number {
    return Atomics.load(this.#cells, CELL.count)
  }

  /** The failed calls since it was armed, in all threads. */
  get struck(): string[] {
    const said = Math.min(Atomics.load(this.#cells, CELL.said), WORDS)
    return Buffer.from(this.#words.slice(0, said)).toString('latin1').split('\n').slice(0, -1)
  }

  /** Calls that did fail, in all threads. */
  get strikes(): number {
    return Atomics.load(this.#cells, CELL.struck)
  }

  /** Runs the test's own calls: they are not counted and do not fail. Synchronous. */
  quiet<T>(look: () => T): T {
    this.#quiet++
    try {
      return look()
    } finally {
      this.#quiet--
    }
  }

  /** Whether this call fails, and how. `kinds` are the possible ways. */
  fails(family: Family, label: string, kinds: readonly Kind[]): Kind | undefined {
    if (this.#quiet > 0) return undefined
    if (this.onCall && kinds.length > 0) this.quiet(() => this.onCall!(family, label))
    const cells = this.#cells
    if (Atomics.load(cells, CELL.armed) === 0 || cells[CELL.family] !== FAMILIES.indexOf(family)) return undefined
    const kind = ALL_KINDS[cells[CELL.kind]!]!
    if (!kinds.includes(kind)) return undefined
    const count = Atomics.add(cells, CELL.count, 1) + 1
    this.calls.push(label)
    const n = cells[CELL.n]!
    if (n === 0 || count < n || (count > n && cells[CELL.lasting] === 0)) return undefined
    Atomics.add(cells, CELL.struck, 1)
    const words = Buffer.from(`${label.replaceAll('\n', ' ')}\n`, 'latin1')
    const at = Atomics.add(cells, CELL.said, words.length)
    if (at + words.length <= WORDS) this.#words.set(words, at)
    return kind
  }
}
