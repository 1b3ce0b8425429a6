// Finds receivers that accept less email than before, and high bounce and complaint rates.
import { DAY, dayOf, HOUR } from '../base/clock.ts'
import { percent } from '../base/text.ts'
import { fail, warn, type AccountFinder, type Finding } from '../parts/findings/finding.ts'
import { alarmSentence } from './alarm-words.ts'
import { listOpenAlarms, type ReceiverAlarm } from './alarms.ts'
import { figuresBetween } from './receivers.ts'
import { accountFigures } from './tally.ts'

/** The rates above which mailbox providers throttle a sender, and block it. */
export const RATE_LIMITS = {
  bounce_rate: [0.02, 0.05],
  complaint_rate: [0.001, 0.003],
} as const

/** The severity of a rate. A rate that equals a limit has reached it. */
export function rateSeverity(name: keyof typeof RATE_LIMITS, rate: number): Finding['severity'] {
  const [throttled, blocked] = RATE_LIMITS[name]
  return rate >= blocked ? 'fail' : rate >= throttled ? 'warn' : 'ok'
}

const PERIOD = 7 * DAY

function rateFinding(name: keyof typeof RATE_LIMITS, part: number, whole: number): Finding[] {
  const [throttled, blocked] = RATE_LIMITS[name]
  const rate = whole === 0 ? 0 : part / whole
  const severity = rateSeverity(name, rate)
  if (severity === 'ok') return []
  const shown = name === 'bounce_rate' ? 'bounce rate' : 'complaint rate'
  const fix = 'Send only to people who subscribed, and remove addresses that bounce.'
  const text = (effect: string, limit: number): string =>
    `The ${shown} of the last 7 days is ${percent(rate)}. Providers may ${effect} your email above ${percent(limit)}`
  const found =
    severity === 'warn' ? warn(shown, text('throttle', throttled), fix) : fail(shown, text('block', blocked), fix)
  return [{ ...found, href: '/receivers' }]
}

/** The rates whose cause can be a receiver with an alarm, and the column of its results. */
const CAUSES = { bounce_rate: 'refused', complaint_rate: 'complained' } as const

/**
 * Whether receivers with an open alarm cause a high rate: without their email, it is below the limits. Their alarms are
 * findings already.
 */
function isAlarmed(
  name: keyof typeof RATE_LIMITS,
  { now, store, userKey }: Parameters<AccountFinder>[0],
  alarms: readonly ReceiverAlarm[],
): boolean {
  const kind = CAUSES[name]
  const alarmed = new Set(alarms.filter((alarm) => alarm.kind === kind).map(({ receiver }) => receiver))
  if (alarmed.size === 0) return false
  const from = dayOf(now - PERIOD) * 24
  const others = figuresBetween(store, { userKey, from, until: Math.floor(now / HOUR) + 1 })
  let [part, whole] = [0, 0]
  for (const [receiver, { complained, delivered, refused }] of others) {
    if (alarmed.has(receiver)) continue
    part += name === 'bounce_rate' ? refused : complained
    whole += name === 'bounce_rate' ? delivered + refused : delivered
  }
  return rateSeverity(name, whole === 0 ? 0 : part / whole) === 'ok'
}

export const accountFindings: AccountFinder = (asked) => {
  const { now, store, userKey } = asked
  const { bounces, complaints, deliveries } = accountFigures(store, userKey, {
    from: Math.floor((now - PERIOD) / HOUR),
  })
  const alarms = listOpenAlarms(store, userKey)
  const ofRate = (name: keyof typeof RATE_LIMITS, part: number, whole: number): Finding[] => {
    const found = rateFinding(name, part, whole)
    return found.length > 0 && isAlarmed(name, asked, alarms) ? [] : found
  }
  return [
    ...alarms.map((alarm) => ({
      ...fail('receiver', alarmSentence(alarm).replace(/\.$/, ''), 'The page of the provider explains its replies.'),
      subject: alarm.receiver,
      href: `/receivers/${encodeURIComponent(alarm.receiver)}`,
    })),
    ...ofRate('bounce_rate', bounces, bounces + deliveries),
    ...ofRate('complaint_rate', complaints, deliveries),
  ]
}
