// Times of a page in local time and language. The server writes them in UTC.
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Whether the user chose times in UTC. Otherwise they are in the zone of the browser. */
export const inUtc = document.documentElement.dataset['times'] === 'utc'
const timeZone = inUtc ? 'UTC' : undefined
const written = (form: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat(undefined, { ...form, timeZone })

const clock = written({ timeStyle: 'short' })
const exact = written({ timeStyle: 'medium' })
const day = written({ day: 'numeric', month: 'short' })
const dayOfYear = written({ day: 'numeric', month: 'short', year: 'numeric' })
const whole = written({ dateStyle: 'full', timeStyle: 'long' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'always' })
/** "2026-11-24" in every language. */
const date = new Intl.DateTimeFormat('sv-SE', { timeZone })

/** "15:04" today, "Yesterday 15:04", "24 Nov 15:04", and with the year if it is another. */
function short(at: Date, now: Date, form: Intl.DateTimeFormat): string {
  const [then, today] = [date.format(at), date.format(now)]
  const days = Math.round((Date.parse(today) - Date.parse(then)) / DAY)
  if (days === 0) return form.format(at)
  if (days === 1) return `Yesterday ${form.format(at)}`
  return then.slice(0, 4) === today.slice(0, 4) ? `${day.format(at)} ${form.format(at)}` : dayOfYear.format(at)
}

/** "in 4 min." */
function until(at: Date, now: Date): string {
  const ms = at.getTime() - now.getTime()
  if (ms < 0) return 'now'
  if (ms < HOUR) return relative.format(Math.max(1, Math.round(ms / MINUTE)), 'minute')
  if (ms < DAY) return relative.format(Math.round(ms / HOUR), 'hour')
  return short(at, now, clock)
}

/** Writes all times of a page in the local zone. The whole time with its zone becomes the title. */
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

/** The zone of the browser, by its name. */
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone

/** Stores the zone in a cookie, because the server draws charts in it. */
export function tellZone(): void {
  document.cookie = `tz=${ZONE}; Path=/; SameSite=Lax; Max-Age=${400 * 24 * 3600}`
}
