// Gathers patient writes of one kind: one job of a commit writes all that came until then, so that a statement is run
// for the page and not for each item.
//
// Guarantees: `add` resolves when its item is on the disk. An item that cannot be written holds up no other: when a
// page fails, each of its items is written by a job of its own.
import type { Store, Tx } from './database.ts'

interface Waiting<Item> {
  item: Item
  resolve: () => void
  reject: (error: unknown) => void
}

export class Gathered<Item> {
  readonly #store: Pick<Store, 'writeSoon'>
  readonly #patience: number
  readonly #write: (tx: Tx, page: readonly Item[]) => void
  #waiting: Waiting<Item>[] = []

  /** `write` writes a page. If it throws, the page is rolled back. An item waits up to `patience` ms for others. */
  constructor(store: Pick<Store, 'writeSoon'>, patience: number, write: (tx: Tx, page: readonly Item[]) => void) {
    this.#store = store
    this.#patience = patience
    this.#write = write
  }

  add(item: Item): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ item, resolve, reject }) === 1) void this.#page()
    })
  }

  async #page(): Promise<void> {
    let page: Waiting<Item>[] = []
    try {
      await this.#store.writeSoon((tx) => {
        page = this.#waiting
        this.#waiting = []
        this.#write(
          tx,
          page.map(({ item }) => item),
        )
      }, this.#patience)
      for (const { resolve } of page) resolve()
    } catch (thrown) {
      // The commit may have failed before this job had its turn.
      if (page.length === 0) page = this.#waiting.splice(0)
      if (page.length === 1) return page[0]?.reject(thrown)
      for (const { item, reject, resolve } of page)
        this.#store.writeSoon((tx) => this.#write(tx, [item]), this.#patience).then(resolve, reject)
    }
  }
}
