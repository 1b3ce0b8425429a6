// The present job of a worker thread, in memory shared with the server. A busy thread answers no message, but the
// server must know which job occupies it, and how much CPU time that job has used.
const RUNNING = 0
const BEGAN = 1
const SPENT = 2

/** The server's view of a turn. CPU times are in microseconds. */
export interface Turn {
  /** The job whose turn it is, or 0. */
  job: number
  /** The thread's CPU time when the turn began. */
  began: number
  /** The CPU time of the job's earlier turns. */
  spent: number
}

export class ThreadCpu {
  readonly memory: SharedArrayBuffer
  readonly #job: Int32Array
  readonly #times: Float64Array

  constructor(memory = new SharedArrayBuffer(24)) {
    this.memory = memory
    this.#job = new Int32Array(memory)
    this.#times = new Float64Array(memory)
  }

  /** The job that the thread runs, with its CPU times. `job` is 0 for an idle thread. */
  read(): Turn {
    return {
      job: Atomics.load(this.#job, RUNNING),
      began: this.#times[BEGAN]!,
      spent: this.#times[SPENT]!,
    }
  }

  /** Records that a job runs. `began` and `spent` are as in Turn. */
  begin(job: number, began: number, spent: number): void {
    this.#times[BEGAN] = began
    this.#times[SPENT] = spent
    Atomics.store(this.#job, RUNNING, job)
  }

  /** Records that no job runs. */
  end(): void {
    Atomics.store(this.#job, RUNNING, 0)
  }
}
