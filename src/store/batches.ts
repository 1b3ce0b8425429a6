// Decides which writes share a commit. Writes of one turn of the event loop share one. Under load a commit waits as
// long as the last one took, so that more writes share it. (A wait that grows with the writes of the last commit saves
// 4 KB a posted mail and costs a fifth of the mails a second: see docs/performance.md.) A patient write is not urgent:
// it joins the next commit; if there is none for a short time, it gets a commit of its own.

/** The least and the longest wait under load, in ms. An idle store never waits. */
const GATHER_MS = 1
const MAX_GATHER_MS = 4
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
      this.#flush()
      const end = performance.now()
      this.#restUntil = end + Math.min(Math.max(end - start, GATHER_MS), MAX_GATHER_MS)
      if (this.#queue.length + this.#patient.length > 0) this.#schedule()
    }
    const rest = this.#restUntil - performance.now()
    if (rest > 0) setTimeout(run, rest)
    else setImmediate(run)
  }

  /** Commits from the front. */
  #flush(): void {
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
  }
}
