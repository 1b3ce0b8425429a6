// Shared by the tests of "why": a server with a sending domain, and a receiving server with a scripted reply for each
// recipient.
import assert from 'node:assert/strict'
import { raw } from '../../src/store/query.ts'
import type { Domain } from '../../src/domains/find.ts'
import type { Explanation } from '../../src/why/explain.ts'
import { startTestAppliance, type TestAppliance, type TestOptions } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { mailsOf, type Mails } from '../mail/mails.ts'

export interface Scene {
  /** The replies of the MX host by recipient. Without an entry, it accepts. */
  replies: Map<string, string>
  postrider: TestAppliance
  domain: Domain
  mails: Mails
  write: (sql: string, ...parameters: (string | number | null)[]) => Promise<unknown>
  /** Routes a domain to the MX host. `host` is that of a provider. */
  route: (name: string, host?: string) => void
  /** A new recipient domain for each use, without earlier replies. */
  receiving: (host?: string) => string
  explained: (subject: string) => Promise<Explanation>
}

export function sceneOfFile(options: TestOptions = {}): Scene {
  const replies = new Map<string, string>()
  const exchanger = testExchanger({
    answer: (command) => replies.get(/^RCPT TO:<([^>]+)>/i.exec(command)?.[1] ?? ''),
  })
  const postrider = ofFile(() => startTestAppliance({ exchanger, ...options }))
  const domain = ofFile(() => postrider.activeDomain('here.test'))
  const route: Scene['route'] = (name, host = `mx.${name}`) => {
    postrider.dns.set(name, 'MX', [`10 ${host}`])
    postrider.dns.set(host, 'A', ['127.0.0.1'])
  }
  let domains = 0
  return {
    replies,
    postrider,
    domain,
    mails: mailsOf(() => postrider),
    write: (sql, ...parameters) => postrider.appliance.deps.store.write((tx) => tx.run(raw(sql, parameters))),
    route,
    receiving(host) {
      const name = `there${++domains}.test`
      route(name, host)
      return name
    },
    async explained(subject) {
      const { body, status } = await postrider.api(
        'GET',
        `/explanations?filter[subject]=${encodeURIComponent(subject)}`,
      )
      assert.equal(status, 200, JSON.stringify(body))
      return body.data.attributes
    },
  }
}
