// A draft is saved automatically, shortly after the user stops typing. Unsaved changes are kept in this browser, so
// that they survive a lost connection or an expired session. If two users edit the draft, neither replaces the other's
// text without a question.

/** The pause in typing after which it is saved, and the longest time between two saves, in ms. */
const PAUSE = 1200
const LONGEST = 8000
/** The interval between retries if the server does not answer, in ms. */
const AGAIN = 5000

export interface SavedDraft {
  tag: string
  tags: string[]
  reach: string
  people: string[]
  warnings: string[]
}
interface SaveAnswer extends Partial<SavedDraft> {
  clash?: boolean
  /** The reason why it cannot be saved any more. */
  gone?: string
  errors?: { field: string; words: string }[]
}
type FormValues = Record<string, string>
interface Kept {
  at: string
  tag: string
  values: FormValues
}

/** Fields that the user does not edit. */
const OWN = new Set(['proof', 'action', 'tag', 'question', 'sure'])

export class Saving {
  readonly #form: HTMLFormElement
  readonly #status: HTMLElement
  readonly #saved: (draft: SavedDraft) => void
  readonly #key = `draft ${location.pathname}`
  #last: string
  #timer = 0
  #since = 0
  #busy = false
  /** The user has to decide first: there are two versions, or the campaign was deleted. */
  #stopped = false

  constructor(form: HTMLFormElement, status: HTMLElement, saved: (draft: SavedDraft) => void) {
    this.#form = form
    this.#status = status
    this.#saved = saved
    this.#last = JSON.stringify(this.#values())
    form.addEventListener('input', () => this.touched())
    form.addEventListener('change', () => this.touched())
    form.addEventListener('submit', () => (this.#stopped = true))
    addEventListener('online', () => this.#soon(0))
    addEventListener('beforeunload', (event) => {
      if (this.#dirty && !this.#stopped) event.preventDefault()
    })
  }

  #values(): FormValues {
    const values: FormValues = {}
    for (const [name, value] of new FormData(this.#form))
      if (typeof value === 'string' && !OWN.has(name)) values[name] = value
    return values
  }

  #field(name: string): HTMLInputElement | null {
    const found = this.#form.elements.namedItem(name)
    return found instanceof HTMLInputElement ? found : null
  }

  get #dirty(): boolean {
    return JSON.stringify(this.#values()) !== this.#last
  }

  /** Shows the status. `bad`: the text is only in this browser. */
  #say(words: string, bad = false, more?: Node): void {
    this.#status.textContent = words
    this.#status.classList.toggle('bad', bad)
    this.#status.classList.toggle('soft', !bad)
    if (more) this.#status.append(' ', more)
  }

  /** Called after a change. */
  touched(): void {
    if (this.#stopped || !this.#dirty) return
    this.#keep()
    this.#say('Unsaved changes')
    const now = Date.now()
    if (this.#timer === 0) this.#since = now
    this.#soon(Math.max(0, Math.min(PAUSE, this.#since + LONGEST - now)))
  }

  #soon(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.save(), ms)
  }

  #keep(): void {
    // After a conflict the form has the tag of the other version, which this text must not replace automatically.
    const tag = this.#stopped ? '' : (this.#field('tag')?.value ?? '')
    const kept: Kept = { at: new Date().toISOString(), tag, values: this.#values() }
    try {
      localStorage.setItem(this.#key, JSON.stringify(kept))
    } catch {
      // Without storage in the browser, the text is only in the page, as the status shows.
    }
  }

  #forget(): void {
    try {
      localStorage.removeItem(this.#key)
    } catch {
      // Without storage there is no copy to delete.
    }
  }

  async save(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = 0
    if (this.#stopped || this.#busy || !this.#dirty) return
    this.#busy = true
    this.#say('Saving …')
    const values = this.#values()
    try {
      const data = new FormData(this.#form)
      data.set('action', 'autosave')
      const response = await fetch(location.pathname, {
        method: 'POST',
        headers: { accept: 'application/json' },
        body: data,
      })
      const json = (response.headers.get('content-type') ?? '').startsWith('application/json')
      if (json) this.#received((await response.json()) as SaveAnswer, values)
      else await this.#refused(response.status)
    } catch {
      this.#say(
        'No connection. Your changes are kept in this browser and will be saved when the server responds.',
        true,
      )
      this.#soon(AGAIN)
    } finally {
      this.#busy = false
    }
    if (this.#timer === 0 && this.#dirty && !this.#stopped && !this.#status.classList.contains('bad')) this.#soon(PAUSE)
  }

  /** Saves unsaved changes. Returns whether all are saved. */
  async flush(): Promise<boolean> {
    while (this.#busy) await new Promise((resolve) => setTimeout(resolve, 50))
    await this.save()
    return !this.#dirty
  }

  #received({ clash, errors = [], gone, ...draft }: SaveAnswer, values: FormValues): void {
    for (const each of this.#form.querySelectorAll('[aria-invalid]')) each.removeAttribute('aria-invalid')
    if (clash || gone !== undefined) {
      this.#stopped = true
      const look = document.createElement('button')
      look.className = 'plain small'
      look.textContent = clash ? 'Compare versions' : 'Save as a new draft'
      look.addEventListener('click', () => this.#form.requestSubmit())
      return this.#say(gone ?? 'Another version was saved in the meantime.', true, look)
    }
    if (draft.tag !== undefined) {
      const tag = this.#field('tag')
      if (tag) tag.value = draft.tag
      this.#saved(draft as SavedDraft)
    }
    const [fault] = errors
    if (fault) {
      this.#field(fault.field)?.setAttribute('aria-invalid', 'true')
      return this.#say(`Not saved: ${fault.words}`, true)
    }
    this.#last = JSON.stringify(values)
    if (!this.#dirty) this.#forget()
    const time = new Date().toLocaleTimeString(undefined, { timeStyle: 'short' })
    this.#say(`Saved ${time}`)
  }

  /** The session or the proof has expired. A page of the user's current session contains a new proof. */
  async #refused(status: number): Promise<void> {
    const response = await fetch(location.pathname)
    const page = response.ok && !response.redirected ? await response.text() : ''
    const [, proof] = /name="proof" value="([^"]+)"/.exec(page) ?? []
    const field = this.#field('proof')
    if (proof !== undefined && field && proof !== field.value) {
      for (const each of document.querySelectorAll<HTMLInputElement>('input[name=proof]')) each.value = proof
      return this.#soon(0)
    }
    if (response.redirected || status === 401) {
      const link = document.createElement('a')
      Object.assign(link, { href: '/sign-in', target: '_blank', textContent: 'Sign in' })
      this.#say(
        'Your session has expired. Your changes are kept in this browser and will be saved after you sign in.',
        true,
        link,
      )
    } else {
      const words = status === 413 ? 'The campaign is too large to save.' : 'The server could not save the campaign.'
      this.#say(`${words} Your changes are kept in this browser.`, true)
    }
    this.#soon(AGAIN)
  }

  /**
   * Restores changes that were not saved when the user left the page. `take` fills the form with the values. They are
   * restored immediately if the campaign has not changed since then. Otherwise the user decides.
   */
  restore(box: HTMLElement, take: (values: FormValues) => void): void {
    const kept = this.#kept()
    if (!kept || JSON.stringify(kept.values) === this.#last) return this.#forget()
    const at = new Date(kept.at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
    const use = (): void => {
      take(kept.values)
      this.touched()
    }
    if (kept.tag === this.#field('tag')?.value && !this.#stopped) {
      use()
      return this.#say(`Restored your unsaved changes from ${at}.`)
    }
    const note = document.createElement('div')
    note.className = 'alert'
    note.setAttribute('role', 'status')
    const words = document.createElement('p')
    words.textContent = `This browser has unsaved changes from ${at}. The campaign was changed after that.`
    const [yes, no] = ['Use my changes', 'Discard them'].map((label) => {
      const button = document.createElement('button')
      button.type = 'button'
      button.className = 'plain small'
      button.textContent = label
      button.addEventListener('click', () => note.remove())
      return button
    })
    yes?.addEventListener('click', use)
    no?.addEventListener('click', () => this.#forget())
    const row = document.createElement('div')
    row.className = 'row'
    row.append(...[yes, no].filter((each) => each !== undefined))
    note.append(words, row)
    box.before(note)
  }

  #kept(): Kept | undefined {
    try {
      const kept: unknown = JSON.parse(localStorage.getItem(this.#key) ?? 'null')
      const fits = typeof kept === 'object' && kept !== null && 'values' in kept && 'tag' in kept && 'at' in kept
      return fits ? (kept as Kept) : undefined
    } catch {
      return undefined
    }
  }

  /**
   * The page shows changes that could not be saved. `hold`: there are two versions, and the user saves with the button.
   */
  unsaved(hold: boolean): void {
    this.#last = ''
    this.#stopped = hold
    this.#keep()
    document.querySelector('[data-theirs]')?.addEventListener('click', () => this.#forget())
  }
}
