// `postrider adopt`: confirms that the server that had this data before is off, and releases the queue. After a
// handover it makes this machine of a failover pair serve again.
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { configOf, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'
import { adopt, isUnknown } from '../store/serving.ts'

export function adoptCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('adopt')
    .description('release the queue after a move from another server')
    .action(() => {
      const { terminal } = invocation()
      const { data_dir } = configOf(invocation())
      const done = adopt(data_dir, systemClock.now())
      if (!done)
        throw new OperatorError(
          `The queue in ${data_dir} is not held, because no other machine used this data; there is nothing to adopt.`,
        )
      answer(terminal, done, ({ from, withdrawn }) =>
        withdrawn
          ? `The handover of ${data_dir} is withdrawn. A standby on this machine starts the server now.`
          : `Postrider now delivers the queue in ${data_dir}. Never start the former server${isUnknown(from) ? ', if there is one,' : ` (${from.machine}, ${from.directory}, until ${from.time})`} with its copy again.`,
      )
    })
}
