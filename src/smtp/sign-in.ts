// AUTH as a client (RFC 4954): PLAIN or LOGIN, whichever the server offers, never in clear text.
import { isFailure, type Channel, type Failure } from './channel.ts'
import type { SmtpReply } from './reply.ts'

export interface Credentials {
  username: string
  password: string
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** Signs in; returns a sentence when the sign-in failed. `timeout` (ms) is for each reply. */
export async function signIn(
  channel: Channel,
  capabilities: ReadonlyMap<string, string>,
  { password, username }: Credentials,
  timeout: number,
): Promise<string | undefined> {
  if (channel.tls === null) return 'The relay takes no TLS; credentials are not sent in clear text.'
  const mechanisms = (capabilities.get('AUTH') ?? '').split(' ')
  let answer: SmtpReply | Failure
  if (mechanisms.includes('PLAIN'))
    answer = await channel.command(`AUTH PLAIN ${base64(`\0${username}\0${password}`)}`, timeout, 'AUTH PLAIN (hidden)')
  else if (mechanisms.includes('LOGIN')) {
    answer = await channel.command('AUTH LOGIN', timeout)
    for (const secret of [username, password])
      if (!isFailure(answer) && answer.code === 334) answer = await channel.command(base64(secret), timeout, '(hidden)')
  } else return 'The relay offers neither AUTH PLAIN nor AUTH LOGIN.'
  if (!isFailure(answer) && answer.code < 300) return undefined
  const said = isFailure(answer) ? answer.failure : `${answer.code} ${answer.text}`
  return `The relay did not take the credentials: ${said}`
}
