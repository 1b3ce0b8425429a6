// `postrider webhook test URL`: sends one signed sample to an endpoint under development, and prints its whole answer.
import type { Command } from 'commander'
import { SECOND, iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isNameIn } from '../base/one-of.ts'
import { SAMPLES } from './samples.ts'
import { Poster, newSecret, signatureHeader } from './post.ts'
import { isFine } from './settle.ts'
import { fetchingOf } from '../net/fetch.ts'
import { isLocalHttp } from '../net/guard.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'

export function webhookCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('webhook')
    .description('test a webhook endpoint')
    .command('test <url>')
    .description('post a signed sample event to an https URL')
    .option('--secret <secret>', 'signing secret, such as whsec_ABC= (default: a new one, printed)')
    .option('--event <type>', 'event type', 'email.delivered')
    .action((url: string, { secret = newSecret(), event }: { secret?: string; event: string }) =>
      withDeps(invocation(), async (deps) => {
        const fetching = fetchingOf(deps)
        if (!isNameIn(SAMPLES, event))
          throw new OperatorError(
            `--event "${event}" is not an event type; use one of ${Object.keys(SAMPLES).join(', ')}.`,
          )
        const target = URL.parse(url)
        if (!target || (target.protocol !== 'https:' && !isLocalHttp(fetching, target)))
          throw new OperatorError(`"${url}" is not an https URL; use one such as https://app.example.org/hooks/mail.`)
        if (!/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(secret))
          throw new OperatorError(
            '--secret is not a webhook secret; use "whsec_" and base64, as shown when the webhook was created.',
          )
        const { clock, config } = deps
        const now = clock.now()
        const id = newId(now)
        const seconds = Math.floor(now / SECOND)
        const body = JSON.stringify({ type: event, timestamp: iso(now), data: SAMPLES[event] })
        const headers = {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': String(seconds),
          'webhook-signature': signatureHeader([secret], id, seconds, body),
        }
        const poster = new Poster(fetching, config.webhooks.timeout)
        const response = await poster.post(url, headers, body)
        poster.close()
        const fine = isFine(response)
        answer(
          invocation().terminal,
          {
            url,
            secret,
            headers,
            body,
            response_status: response.status,
            response_body: response.body,
            reason: response.reason,
            delivered: fine,
          },
          () =>
            `POST ${url}\n${Object.entries(headers)
              .map(([name, value]) => `${name}: ${value}`)
              .join(
                '\n',
              )}\n\n${body}\n\nsigned with ${secret}\n\n${fine ? 'Delivered' : 'Not delivered'}: ${response.reason ?? `status ${response.status}`}${response.body ? `\n${response.body.replace(/^/gm, '  ')}` : ''}`,
        )
        if (!fine) process.exitCode = 1
      }),
    )
}
