// `postrider send`: sends a test email and prints its result with the SMTP transcript. A running server delivers it.
// Otherwise this command does.
import type { Command } from 'commander'
import { SECOND } from '../base/clock.ts'
import { Troubles } from '../base/trouble.ts'
import { OperatorError } from '../base/errors.ts'
import { takeLock } from '../store/lock.ts'
import { heldSince, whyHeld } from '../store/serving.ts'
import { parseAddress, type Address } from '../message/address.ts'
import { listDomains } from '../domains/find.ts'
import { fetchingOf } from '../net/fetch.ts'
import { cuttable } from '../net/resolver.ts'
import { showQueued, type QueuedMail } from '../delivery/queue/operator.ts'
import { submitEmail } from '../mail/accept/submit.ts'
import { isHosted } from '../inbound/recipients.ts'
import type { PartDeps } from '../parts/part.ts'
import { gateOf, loadParts } from '../server/parts.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { detail, isOnHold, showMail } from '../delivery/command-text.ts'
import { answer } from '../views/command/terminal.ts'

const PATIENCE = 90 * SECOND
const LOOK_EVERY = 100

export function sendCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('send')
    .description('send a test email and print its SMTP transcript')
    .requiredOption('--from <address>', 'sender, an address of one of your sending domains')
    .requiredOption('--to <address>', 'recipient')
    .requiredOption('--subject <text>', 'subject')
    .option('--text <text>', 'text body', 'A test email from Postrider.')
    .action(({ from, to, subject, text }: { from: string; to: string; subject: string; text: string }) =>
      withDeps(invocation(), async (deps) => {
        const held = heldSince(deps.config.data_dir)
        if (held) throw new OperatorError(whyHeld(held))
        const { domain: name } = addressed(from)
        addressed(to)
        const [domain] = listDomains(deps.store, name)
        if (!domain) throw new OperatorError(`No user has the domain ${name}; add it with "postrider domain add".`)
        const { email } = await submitEmail({ ...deps, fetching: fetchingOf(deps) }, domain.user_key, {
          from,
          to,
          subject,
          html: '',
          text,
        })
        const mail = await followed(deps, email.id)
        answer(invocation().terminal, showMail(deps, mail), detail)
        if (mail.deliveries.some(({ status }) => status !== 'delivered')) process.exitCode = 1
      }),
    )
}

/** Waits for the first delivery attempt or a hold. Without a running server, delivers the email in this process. */
async function followed(deps: Deps, id: string): Promise<QueuedMail> {
  const release = takeLock(deps.config.data_dir)
  const subjects = await loadParts()
  const gate = (given: PartDeps) => gateOf(subjects, given)
  const own =
    release &&
    (await import('../server/engine.ts')).createEngine(
      { ...deps, ...cuttable(deps.resolver), troubles: new Troubles(deps) },
      { threads: 1, gate, home: (domain) => (isHosted(deps.store, domain) ? 'closed' : undefined) },
    )
  try {
    await own?.engine.recover()
    own?.engine.start()
    const end = deps.clock.now() + PATIENCE
    for (;;) {
      const mail = showQueued(deps.store, id)
      if (!mail) throw new OperatorError('The email was deleted while it was being sent; run the command again.')
      const waits = mail.deliveries.every(
        (delivery) => delivery.status !== 'active' && (delivery.attempts > 0 || isOnHold(delivery, mail.holds)),
      )
      if (waits || deps.clock.now() > end) return mail
      await new Promise<void>((resolve) => void deps.clock.wake(deps.clock.now() + LOOK_EVERY, resolve))
    }
  } finally {
    await own?.engine.stop()
    await own?.workers.close()
    release?.()
  }
}

function addressed(text: string): Address {
  const address = parseAddress(text)
  if (!address) throw new OperatorError(`"${text}" is not an email address; use one such as you@example.org.`)
  return address
}
