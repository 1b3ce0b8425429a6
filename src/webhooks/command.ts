// `postrider webhook test URL`: sends one signed sample to an endpoint under development, and prints its whole answer.
import type { Command } from 'commander'
import { SECOND, iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isNameIn } from '../base/one-of.ts'
import { SAMPLES } from './samples.ts'
import { Poster } from './post.ts'
import { isFine } from './settle.ts'
import { newSecret, signatureHeader } from './sign.ts'
import { fetchingOf } from '../net/fetch.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'

export function webhookCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('webhook')
    .description('help for those who build a webhook endpoint')
    .command('test <url>')
    .description('post one signed sample event to an https URL')
    .option('--secret <secret>', 'the whsec_ secret to sign with (else one is made and printed)')
    .option('--event <type>', 'the event type', 'email.delivered')
    .action((url: string, { secret = newSecret(), event }: { secret?: string; event: string }) =>
      withDeps(invocation(), async (deps) => {
        if (!isNameIn(SAMPLES, event))
          throw new OperatorError(`"${event}" is not an event type; there are ${Object.keys(SAMPLES).join(', ')}.`)
        if (URL.parse(url)?.protocol !== 'https:') throw new OperatorError(`"${url}" is not an https URL.`)
        if (!/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/.test(secret))
          throw new OperatorError('The secret must be "whsec_" and base64, as it was shown when the webhook was made.')
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
        const poster = new Poster(fetchingOf(deps), config.webhooks.timeout)
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
