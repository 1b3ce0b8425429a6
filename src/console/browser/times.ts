// Times of a page in the reader's own zone and words. The server writes them in UTC.
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const exact = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' })
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'always' })

const midnight = (at: Date): number => new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime()

/** "15:04" today, "Yesterday 15:04", "24 Nov 15:04", and with the year when it is another. */
function short(at: Date, now: Date, form: Intl.DateTimeFormat): string {
  const days = Math.round((midnight(now) - midnight(at)) / DAY)
  if (days === 0) return form.format(at)
  if (days === 1) return `Yesterday ${form.format(at)}`
  return at.getFullYear() === now.getFullYear() ? `${day.format(at)} ${form.format(at)}` : dayOfYear.format(at)
}

/** "in 4 min." */
function until(at: Date, now: Date): string {
  const ms = at.getTime() - now.getTime()
  if (ms < 0) return 'now'
  if (ms < HOUR) return relative.format(Math.max(1, Math.round(ms / MINUTE)), 'minute')
  if (ms < DAY) return relative.format(Math.round(ms / HOUR), 'hour')
  return short(at, now, clock)
}

/** Writes all times of a page; the whole time with its zone becomes the title. */
export function localTimes(root: ParentNode): void {
  const now = new Date()
  for (const element of root.querySelectorAll<HTMLTimeElement>('time[datetime]')) {
    const at = new Date(element.dateTime)
    if (Number.isNaN(at.getTime())) continue
    element.title = whole.format(at)
    const { form } = element.dataset
    element.textContent = form === 'until' ? until(at, now) : short(at, now, form === 'seconds' ? exact : clock)
  }
}

/** The server draws charts in this zone. */
export function tellZone(): void {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
  document.cookie = `tz=${timeZone}; Path=/; SameSite=Lax; Max-Age=${400 * 24 * 3600}`
}
