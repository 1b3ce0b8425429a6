// When writes go to the disk, and which go together: those of one turn of the event loop share a commit; under load a commit waits as
// long as the one before took, so that more share it; and what nobody waits for goes with what somebody does, or after a moment.

/** Under load a commit waits as long as the one before took, within these bounds; an idle store never waits. */
const GATHER_MS = 1
const MAX_GATHER_MS = 4
/** So many patient writes are enough for a commit of their own. */
const MANY = 256

interface Patient<Job> {
  job: Job
  /** From then on it is as urgent as any. */
  due: number
}

export class Batches<Job> {
  readonly #commit: (jobs: readonly Job[]) => number
  #queue: Job[] = []
  #patient: Patient<Job>[] = []
  #scheduled = false
  #timer: NodeJS.Timeout | undefined
  #timerDue = Infinity
  #restUntil = 0

  /** `commit` takes jobs from the front and returns how many; the rest waits for the next turn. */
  constructor(commit: (jobs: readonly Job[]) => number) {
    this.#commit = commit
  }

  add(job: Job): void {
    this.#queue.push(job)
    this.#schedule()
  }

  /** Within `patience` ms. */
  addSoon(job: Job, patience: number): void {
    const due = performance.now() + patience
    if (this.#patient.push({ job, due }) >= MANY) return this.#schedule()
    if (this.#scheduled || due >= this.#timerDue) return
    clearTimeout(this.#timer)
    this.#timerDue = due
    this.#timer = setTimeout(() => this.#schedule(), patience)
  }

  /** Commits all that waits, now. */
  drain(): void {
    while (this.#queue.length + this.#patient.length > 0) this.#flush()
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    const run = (): void => {
      this.#scheduled = false
      const start = performance.now()
      this.#flush()
      const end = performance.now()
      this.#restUntil = end + Math.min(Math.max(end - start, GATHER_MS), MAX_GATHER_MS)
      if (this.#queue.length + this.#patient.length > 0) this.#schedule()
    }
    const rest = this.#restUntil - performance.now()
    if (rest > 0) setTimeout(run, rest)
    else setImmediate(run)
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timerDue = Infinity
    // Those that somebody waits for go first, but nobody waits for ever: whose patience is over stands with them, in front of what comes
    // from now on.
    const now = performance.now()
    const over = (patient: Patient<Job>): boolean => patient.due <= now
    const urgent = [...this.#queue, ...this.#patient.filter(over).map(({ job }) => job)]
    const patient = this.#patient.filter((each) => !over(each))
    this.#queue = []
    this.#patient = []
    const taken = this.#commit([...urgent, ...patient.map(({ job }) => job)])
    // Meanwhile more may have come.
    this.#queue = [...urgent.slice(taken), ...this.#queue]
    this.#patient = [...patient.slice(Math.max(taken - urgent.length, 0)), ...this.#patient]
  }
}
