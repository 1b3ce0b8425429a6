// A draft is saved by itself, a moment after somebody stops typing. What is not saved yet is kept in this browser, so
// that neither a lost connection nor an ended session loses it; when two people write, neither replaces the other's
// text without being told.

/** How long nobody types before it is saved, and how long it waits at the most, in ms. */
const PAUSE = 1200
const LONGEST = 8000
/** After how long it is tried again when the server does not answer, in ms. */
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
  /** Why it cannot be saved any more. */
  gone?: string
  errors?: { field: string; words: string }[]
}
type FormValues = Record<string, string>
interface Kept {
  at: string
  tag: string
  values: FormValues
}

/** Not what the person writes. */
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
  /** Somebody decides first: there are two versions, or the campaign is gone. */
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

  /** Says how it stands; `bad` when the text is in this browser alone. */
  #say(words: string, bad = false, more?: Node): void {
    this.#status.textContent = words
    this.#status.classList.toggle('bad', bad)
    this.#status.classList.toggle('soft', !bad)
    if (more) this.#status.append(' ', more)
  }

  /** Something has changed. */
  touched(): void {
    if (this.#stopped || !this.#dirty) return
    this.#keep()
    this.#say('Not saved yet')
    const now = Date.now()
    if (this.#timer === 0) this.#since = now
    this.#soon(Math.max(0, Math.min(PAUSE, this.#since + LONGEST - now)))
  }

  #soon(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.save(), ms)
  }

  #keep(): void {
    // After a conflict the form has the tag of the other version, which this text must not replace by itself.
    const tag = this.#stopped ? '' : (this.#field('tag')?.value ?? '')
    const kept: Kept = { at: new Date().toISOString(), tag, values: this.#values() }
    try {
      localStorage.setItem(this.#key, JSON.stringify(kept))
    } catch {
      // Without space in the browser the text stands in the page alone, as the status says.
    }
  }

  #forget(): void {
    try {
      localStorage.removeItem(this.#key)
    } catch {
      // A browser that keeps nothing has nothing to forget.
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
      if (json) this.#heard((await response.json()) as SaveAnswer, values)
      else await this.#refused(response.status)
    } catch {
      this.#say('No connection. Your text is kept in this browser, and saved when the server answers.', true)
      this.#soon(AGAIN)
    } finally {
      this.#busy = false
    }
    if (this.#timer === 0 && this.#dirty && !this.#stopped && !this.#status.classList.contains('bad')) this.#soon(PAUSE)
  }

  /** Saves what is not saved yet; whether all of it is. */
  async flush(): Promise<boolean> {
    while (this.#busy) await new Promise((resolve) => setTimeout(resolve, 50))
    await this.save()
    return !this.#dirty
  }

  #heard({ clash, errors = [], gone, ...draft }: SaveAnswer, values: FormValues): void {
    for (const each of this.#form.querySelectorAll('[aria-invalid]')) each.removeAttribute('aria-invalid')
    if (clash || gone !== undefined) {
      this.#stopped = true
      const look = document.createElement('button')
      look.className = 'plain small'
      look.textContent = clash ? 'See both versions' : 'Make a new draft of it'
      look.addEventListener('click', () => this.#form.requestSubmit())
      return this.#say(gone ?? 'Somebody has saved another version meanwhile.', true, look)
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
    const time = new Date().toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })
    this.#say(`Saved ${time}`)
  }

  /** The session has ended, or the proof is too old: a page of the person's present session has a new one. */
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
      this.#say('Your session has ended. Your text is kept in this browser, and saved when you are back.', true, link)
    } else {
      const words = status === 413 ? 'It is too large to be saved.' : 'The server could not save it.'
      this.#say(`${words} Your text is kept in this browser.`, true)
    }
    this.#soon(AGAIN)
  }

  /**
   * What was kept when the page was left before it was saved. `take` puts values into the form. It is taken at once
   * when nobody has changed the campaign meanwhile; otherwise the person decides.
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
      return this.#say(`Your text of ${at}, which was not saved, is back.`)
    }
    const note = document.createElement('div')
    note.className = 'alert'
    note.setAttribute('role', 'status')
    const words = document.createElement('p')
    words.textContent = `This browser has a text of yours of ${at} that was not saved; the campaign was changed since.`
    const [yes, no] = ['Take my text', 'Forget it'].map((label) => {
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

  /** The page shows what could not be saved; `hold`: there are two versions, and the person saves by the button. */
  unsaved(hold: boolean): void {
    this.#last = ''
    this.#stopped = hold
    this.#keep()
    document.querySelector('[data-theirs]')?.addEventListener('click', () => this.#forget())
  }
}
