// Questions on a terminal.
import { createInterface, type Interface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { OperatorError } from '../../base/errors.ts'
import { drawn } from './terminal.ts'

export class Prompt {
  readonly #lines: Interface
  /** While it is set, typed text is not shown. */
  #hidden = false

  constructor() {
    const output = new Writable({
      write: (chunk: Buffer, _, done) => {
        if (!this.#hidden) drawn(chunk)
        done()
      },
    })
    this.#lines = createInterface({ input: process.stdin, output, terminal: true })
  }

  /** The answer, trimmed. Throws an OperatorError after Ctrl-C or Ctrl-D. */
  async question(text: string): Promise<string> {
    return (await this.#ask(text)).trim()
  }

  /** Reads a secret without an echo of the typed text. */
  async secret(text: string): Promise<string> {
    drawn(text)
    this.#hidden = true
    try {
      return await this.#ask('')
    } finally {
      this.#hidden = false
      drawn('\n')
    }
  }

  close(): void {
    this.#lines.close()
  }

  async #ask(text: string): Promise<string> {
    const end = new AbortController()
    const stop = (): void => end.abort()
    this.#lines.once('SIGINT', stop).once('close', stop)
    try {
      return await this.#lines.question(text, { signal: end.signal })
    } catch (thrown) {
      throw new OperatorError('Nothing was changed.', { cause: thrown })
    } finally {
      this.#lines.off('SIGINT', stop).off('close', stop)
    }
  }
}
