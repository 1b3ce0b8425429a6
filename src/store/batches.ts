// Decides which writes share a commit. Writes of one turn of the event loop share one. Under load a commit waits as
// long as the last one took, and longer the more writes it had, so that more writes share it: a page that all of them
// change is written once. A patient write is not urgent: it joins the next commit; if
// there is none for a short time, it gets a commit of its own.

/** Bounds of the wait under load, in ms: for a long commit, and for one of many writes. An idle store never waits. */
const GATHER_MS = 1
const MAX_COMMIT_MS = 4
const MAX_GATHER_MS = 10
/** The wait for each write that the last commit had. Two writes at once wait no longer than one. */
const GATHER_MS_EACH = 0.5
/** As soon as this many patient writes wait, they get a commit. */
const MANY = 256

interface Patient<Job> {
  job: Job
  /** From this time on the write is as urgent as any other. */
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

  /** `commit` runs jobs from the front and returns their number; the other jobs wait for the next turn. */
  constructor(commit: (jobs: readonly Job[]) => number) {
    this.#commit = commit
  }

  /** Adds a job: it is committed in the next turn of the event loop, under load a little later. */
  add(job: Job): void {
    this.#queue.push(job)
    this.#schedule()
  }

  /** A patient job: committed within `patience` ms. */
  addSoon(job: Job, patience: number): void {
    const due = performance.now() + patience
    if (this.#patient.push({ job, due }) >= MANY) return this.#schedule()
    if (this.#scheduled || due >= this.#timerDue) return
    clearTimeout(this.#timer)
    this.#timerDue = due
    this.#timer = setTimeout(() => this.#schedule(), patience)
  }

  /** Commits all jobs now. */
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
      const taken = this.#flush()
      const end = performance.now()
      // What is left over is a batch already: it need not gather.
      const gather = this.#queue.length > 0 ? 0 : taken * GATHER_MS_EACH
      this.#restUntil = end + Math.max(Math.min(end - start, MAX_COMMIT_MS), Math.min(gather, MAX_GATHER_MS), GATHER_MS)
      if (this.#queue.length + this.#patient.length > 0) this.#schedule()
    }
    const rest = this.#restUntil - performance.now()
    if (rest > 0) setTimeout(run, rest)
    else setImmediate(run)
  }

  /** Commits from the front; returns the number of jobs that were. */
  #flush(): number {
    clearTimeout(this.#timer)
    this.#timerDue = Infinity
    // Urgent jobs go first. A patient job that is due counts as urgent, so that it does not wait for ever.
    const now = performance.now()
    const over = (patient: Patient<Job>): boolean => patient.due <= now
    const urgent = [...this.#queue, ...this.#patient.filter(over).map(({ job }) => job)]
    const patient = this.#patient.filter((each) => !over(each))
    this.#queue = []
    this.#patient = []
    const taken = this.#commit([...urgent, ...patient.map(({ job }) => job)])
    // Jobs may have been added during the commit.
    this.#queue = [...urgent.slice(taken), ...this.#queue]
    this.#patient = [...patient.slice(Math.max(taken - urgent.length, 0)), ...this.#patient]
    return taken
  }
}
