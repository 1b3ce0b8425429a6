// What fails, and when: the n-th call of one family, once or from then on, until it is healed. The numbers stand in
// shared memory, so that the worker threads of the appliance count with it.

export const FAMILIES = ['sqlite', 'fs', 'socket', 'worker'] as const
export type Family = (typeof FAMILIES)[number]

/** The kinds of failure of each family. */
export const KINDS = {
  /**
   * As SQLite answers (vdbeaux.c, sqlite3VdbeHalt): on EIO and on a full disk it has rolled the whole transaction back
   * by itself, without memory it undoes the one statement. `late`: the commit is on the disk, and its sync is said to
   * have failed.
   */
  sqlite: ['ioerr', 'full', 'nomem', 'busy', 'cantopen', 'late'],
  fs: ['EIO', 'ENOSPC', 'EMFILE'],
  /** `EPIPE`: nothing is written and the connection is gone; `cut`: it is written, and then the connection is gone. */
  socket: ['EMFILE', 'EPIPE', 'cut', 'accept'],
  /** `hire`: no thread can be started; `die`: it ends over a job. */
  worker: ['hire', 'die'],
} as const satisfies Record<Family, readonly string[]>
export type Kind = (typeof KINDS)[Family][number]
const ALL_KINDS: readonly Kind[] = FAMILIES.flatMap((family) => [...KINDS[family]])

export interface Plan {
  family: Family
  kind: Kind
  /** The first call that fails, from 1; 0: none, calls are only counted. */
  n: number
  /** All further calls fail as well, until it is healed. */
  lasting: boolean
}

const CELL = { armed: 0, family: 1, kind: 2, n: 3, lasting: 4, count: 5, struck: 6, said: 7 } as const
const CELLS = 8
/** Octets for the labels of what failed. */
const WORDS = 16 * 1024

/** Counts calls and says which fail. One for each thread, over the same cells. */
export class Control {
  readonly #cells: Int32Array
  readonly #words: Uint8Array
  #quiet = 0
  /** Every call that was counted in this thread. */
  readonly calls: string[] = []
  /** Called before each call that could fail, whatever the plan. */
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

  /** What failed since it was armed, in all threads. */
  get struck(): string[] {
    const said = Math.min(Atomics.load(this.#cells, CELL.said), WORDS)
    return Buffer.from(this.#words.slice(0, said)).toString('latin1').split('\n').slice(0, -1)
  }

  /** Calls that did fail, in all threads. */
  get strikes(): number {
    return Atomics.load(this.#cells, CELL.struck)
  }

  /** Runs what the test itself asks: it is not counted and does not fail. Synchronous. */
  quiet<T>(look: () => T): T {
    this.#quiet++
    try {
      return look()
    } finally {
      this.#quiet--
    }
  }

  /** Whether this call fails, and how; `kinds` are the ways in which it can. */
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
