// Counters for a monitoring system. The code that causes an event counts the event, a write only after its commit, and
// /metrics shows the sums. The sums start at zero with each process.

export type MetricLabels = Record<string, string>

const keyOf = (labels: MetricLabels): string => JSON.stringify(labels)

export class Counter {
  readonly name: string
  readonly help: string
  readonly #sums = new Map<string, [MetricLabels, number]>()

  /** `known`: label sets that are shown as 0 before they occur, so that the first occurrence is visible as a rise. */
  constructor(name: string, help: string, known: readonly MetricLabels[] = []) {
    this.name = name
    this.help = help
    for (const labels of known) this.#sums.set(keyOf(labels), [labels, 0])
  }

  /** Adds to the sum of a set of labels. A new set begins at 0. */
  add(labels: MetricLabels = {}, amount = 1): void {
    const key = keyOf(labels)
    const sum = this.#sums.get(key)
    if (sum) sum[1] += amount
    else this.#sums.set(key, [labels, amount])
  }

  /** Every set of labels with its sum. */
  values(): readonly (readonly [MetricLabels, number])[] {
    return [...this.#sums.values()]
  }
}

/** Upper bounds of the buckets in seconds. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

interface Observed {
  labels: MetricLabels
  /** Counts by bucket, not cumulative. The last is for values above all bounds. */
  buckets: number[]
  sum: number
}

export class Histogram {
  readonly name: string
  readonly help: string
  readonly #observed = new Map<string, Observed>()

  constructor(name: string, help: string) {
    this.name = name
    this.help = help
  }

  /** Counts one value, in seconds. */
  observe(labels: MetricLabels, seconds: number): void {
    const key = keyOf(labels)
    const observed = this.#observed.get(key) ?? { labels, buckets: BOUNDS.map(() => 0).concat(0), sum: 0 }
    this.#observed.set(key, observed)
    const place = BOUNDS.findIndex((bound) => seconds <= bound)
    observed.buckets[place < 0 ? BOUNDS.length : place]! += 1
    observed.sum += seconds
  }

  /** Lines of Prometheus' text format: name, labels, value. */
  lines(): (readonly [name: string, MetricLabels, number])[] {
    return [...this.#observed.values()].flatMap(({ buckets, labels, sum }) => {
      let count = 0
      const upTo = buckets.map((amount, index) => {
        count += amount
        const le = index < BOUNDS.length ? String(BOUNDS[index]) : '+Inf'
        return [`${this.name}_bucket`, { ...labels, le }, count] as const
      })
      return [...upTo, [`${this.name}_sum`, labels, sum] as const, [`${this.name}_count`, labels, count] as const]
    })
  }
}

const each = (name: string, values: string): MetricLabels[] => values.split(' ').map((value) => ({ [name]: value }))

export const counters = {
  mails: new Counter(
    'postrider_mails_total',
    'Recipients by result. A delivery attempt that is retried counts as deferred.',
    each('outcome', 'delivered deferred bounced complained failed rejected suppressed'),
  ),
  inbound: new Counter(
    'postrider_inbound_total',
    'Received messages by outcome: stored in an inbox, withheld, report, unsubscription, or message to the owner of a domain.',
    each('outcome', 'received oversized virus_detected parse_rejected report unsubscribe notice'),
  ),
  http: new Counter('postrider_http_requests_total', 'HTTP requests by route and status.'),
  smtp: new Counter(
    'postrider_smtp_replies_total',
    'SMTP replies by their first digit. in: sent by this server; out: received from receiving servers.',
    ['in', 'out'].flatMap((direction) => ['2xx', '3xx', '4xx', '5xx'].map((code) => ({ direction, class: code }))),
  ),
  webhooks: new Counter(
    'postrider_webhook_attempts_total',
    'Webhook delivery attempts by response class. error: no response.',
    each('result', '2xx 3xx 4xx 5xx error'),
  ),
  refused: new Counter(
    'postrider_auth_failures_total',
    'Requests and sign-ins whose credentials were wrong, expired or missing.',
    each('where', 'api mcp sign_in submission metrics'),
  ),
  limited: new Counter('postrider_rate_limited_total', 'Requests rejected because of a rate limit (429).', [{}]),
  certificates: new Counter('postrider_certificate_failures_total', 'Certificate orders (ACME) that failed, by name.'),
  faults: new Counter('postrider_faults_total', 'Internal errors, which the log describes as internal_error.', [{}]),
}

export const requestSeconds = new Histogram('postrider_http_request_seconds', 'Duration of HTTP requests, by route.')
