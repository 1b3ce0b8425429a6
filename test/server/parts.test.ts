// Each optional part can be deleted from the list of parts: the server starts without it, and answers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY } from '../../src/base/clock.ts'
import { apiInside } from '../../src/http/server.ts'
import { OPTIONAL, PARTS } from '../../src/server/parts.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { mailsOf } from '../mail/mails.ts'

const PASSWORD = 'a long enough password'

for (const optional of OPTIONAL) {
  const { name, pages, resources, routes } = await optional.load()
  test(`a server without the part "${name}" starts, delivers email and shows its pages`, async () => {
    const exchanger = testExchanger()
    const parts = PARTS.filter((each) => each !== optional)
    const postrider = await startTestAppliance({ exchanger, parts, domains: ['here.test'], routes: ['there.test'] })
    try {
      const mails = mailsOf(() => postrider)
      await mails.become(await mails.post({ to: 'bob@there.test' }), 'delivered')
      for (const { actions } of resources ?? [])
        assert.equal((await postrider.api('GET', actions[0]!.path)).status, 404, actions[0]!.path)
      await givePassword(postrider, postrider.user.email, PASSWORD)
      const ann = new Guest(postrider)
      await ann.signIn(postrider.user.email, PASSWORD)
      for (const path of ['/', '/mail', '/queue', '/domains/here.test', '/campaigns', '/inboxes', '/server'])
        assert.equal((await ann.open(path)).status, 200, path)
      const { deps } = postrider.appliance
      for (const { path } of routes?.(deps, apiInside(deps)).routes ?? [])
        assert.equal((await postrider.raw(path)).status, 404, path)
      for (const { path } of typeof pages === 'object' ? pages : [])
        assert.equal((await ann.open(path)).status, 404, path)
      postrider.clock.leap(DAY)
      assert.equal((await postrider.page('/health')).status, 200)
    } finally {
      await postrider.stop()
    }
  })
}
