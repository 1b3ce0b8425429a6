// /metrics in Prometheus' text format 0.0.4, for clients on this machine, and for others that send `metrics.token`.
import { createHash, timingSafeEqual } from 'node:crypto'
import { Hono, type Context, type MiddlewareHandler } from 'hono'
import { routePath } from 'hono/route'
import { SECOND, type Clock } from '../base/clock.ts'
import { counters, requestSeconds, type MetricLabels } from '../base/counters.ts'
import type { AppDeps } from './app-deps.ts'
import { clientAddress } from '../net/client-address.ts'
import type { MetricDeps } from '../parts/part.ts'

export type MetricsDeps = MetricDeps & Pick<AppDeps, 'subjects'>

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const labelled = (labels: MetricLabels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

async function text(deps: MetricsDeps): Promise<string> {
  const lines: string[] = []
  const head = (name: string, help: string, type: string): void =>
    void lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`)
  for (const { help, name, type, values } of deps.subjects.flatMap(({ figures = [] }) => figures)) {
    head(name, help, type)
    for (const [labels, value] of await values(deps)) lines.push(`${name}${labelled(labels)} ${value}`)
  }
  for (const counter of Object.values(counters)) {
    head(counter.name, counter.help, 'counter')
    for (const [labels, value] of counter.values()) lines.push(`${counter.name}${labelled(labels)} ${value}`)
  }
  head(requestSeconds.name, requestSeconds.help, 'histogram')
  for (const [name, labels, value] of requestSeconds.lines()) lines.push(`${name}${labelled(labels)} ${value}`)
  return `${lines.join('\n')}\n`
}

const LOOPBACK = /^(?:127\.|::1$)/
/** The Host header of a request to this machine. Proxies that set no other header keep the public name. */
const LOCAL_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])?(?::\d+)?$/i
/** Fields that a proxy adds (RFC 9110 §7.6.3, RFC 7239), the usual ones and those of the large providers. */
const PASSED_ON =
  /^(?:via|forwarded|x-forwarded(?:-.*)?|x-real-ip|x-original-.*|x-client-ip|x-cluster-client-ip|true-client-ip|cf-.*|cdn-loop|fastly-.*|fly-.*|x-amzn-trace-id|x-envoy-.*)$/i
const digest = (secret: string): Buffer => createHash('sha256').update(secret).digest()

export function createMetrics(deps: MetricsDeps): Hono {
  const app = new Hono()
  // A request through a proxy comes from another machine, even if the proxy is on this machine.
  const isHere = (context: Context): boolean =>
    LOOPBACK.test(clientAddress(context)) &&
    LOCAL_HOST.test(context.req.header('host') ?? '') &&
    !Object.keys(context.req.header()).some((name) => PASSED_ON.test(name))
  app.get('/metrics', async (context) => {
    const { token } = deps.config.metrics
    const [, given] = /^bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '') ?? []
    const known = token !== '' && given !== undefined && timingSafeEqual(digest(given), digest(token))
    if (!known && !isHere(context)) {
      if (token === '') return context.text('Not found.\n', 404)
      counters.refused.add({ where: 'metrics' })
      return context.text('Send the token of metrics.token.\n', 401, { 'WWW-Authenticate': 'Bearer' })
    }
    return context.body(await text(deps), 200, {
      'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      'Cache-Control': 'no-store',
    })
  })
  return app
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS'])

/**
 * Counts every request under the pattern of its route instead of its path, because untrusted clients can send any
 * number of different paths.
 */
export function countRequests({ clock }: { clock: Clock }): MiddlewareHandler {
  return async (context, next) => {
    const began = clock.now()
    await next()
    const path = routePath(context)
    const route = path.endsWith('*') ? 'other' : path
    const method = METHODS.has(context.req.method) ? context.req.method : 'other'
    countRequest(method, route, context.res.status, clock.now() - began)
  }
}

/** Counts a request with its duration in ms. */
export function countRequest(method: string, route: string, status: number, took: number): void {
  counters.http.add({ method, route, status: String(status) })
  requestSeconds.observe({ method, route }, took / SECOND)
}
