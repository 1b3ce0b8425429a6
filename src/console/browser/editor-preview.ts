// The preview next to the text. The frame is as high as the email and as wide as a desktop window or a phone, scaled
// down to the width of the page. It shows the last saved version.

/** The widths of the windows that are shown, in pixels. */
const DESK = 720
const PHONE = 390

export class Preview {
  readonly #pane: HTMLElement
  readonly #frame: HTMLIFrameElement
  readonly #contact: HTMLInputElement
  #as: string
  #loading = false
  #again = false

  constructor(pane: HTMLElement) {
    this.#pane = pane
    this.#frame = pane.querySelector('iframe')!
    this.#contact = pane.querySelector('[data-contact]')!
    this.#as = this.#frame.dataset['as'] ?? ''
    this.#contact.hidden = false
    this.#contact.addEventListener('change', () => this.refresh())
    for (const link of pane.querySelectorAll<HTMLAnchorElement>('[data-as]:not(iframe)'))
      link.addEventListener('click', (event) => {
        event.preventDefault()
        this.#as = link.dataset['as'] ?? ''
        for (const each of pane.querySelectorAll('.segments a')) each.removeAttribute('aria-current')
        link.setAttribute('aria-current', 'true')
        this.refresh()
      })
    this.#frame.addEventListener('load', () => {
      this.#loading = false
      this.fit()
      // Images load later.
      for (const image of this.#frame.contentDocument?.images ?? []) image.addEventListener('load', () => this.fit())
      if (this.#again) this.refresh()
    })
    new ResizeObserver(() => this.fit()).observe(pane)
    this.fit()
  }

  /** Shows the addresses to choose from. */
  people(addresses: readonly string[]): void {
    this.#pane.querySelector('datalist')?.replaceChildren(...addresses.map((each) => new Option(each, each)))
  }

  /** Requests the stored email, one request at a time. */
  refresh(): void {
    this.#again = this.#loading
    if (this.#loading) return
    this.#loading = true
    const url = new URL(this.#frame.src)
    url.search = new URLSearchParams({ head: 'yes', as: this.#as, contact: this.#contact.value }).toString()
    // Replaces the URL without a step in the browser's history.
    this.#frame.contentWindow?.location.replace(url)
  }

  fit(): void {
    const sheet = this.#frame.parentElement
    const space = sheet?.clientWidth ?? 0
    if (!sheet || space === 0) return
    const width = this.#as === 'phone' ? PHONE : Math.max(DESK, space)
    const scale = Math.min(1, space / width)
    const { style } = this.#frame
    style.setProperty('width', `${width}px`)
    // The height of the document, which may be less than that of the frame.
    const held = this.#frame.contentDocument?.querySelector('html')?.getBoundingClientRect().height ?? 0
    const high = Math.max(240, Math.ceil(held))
    style.setProperty('height', `${high}px`)
    style.setProperty('transform', `scale(${scale})`)
    style.setProperty('margin-left', `${Math.max(0, (space - width * scale) / 2)}px`)
    sheet.style.setProperty('height', `${Math.ceil(high * scale)}px`)
  }
}
