// `postrider grant …` beside a running server: what people let in over OAuth, and its end, which counts at once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { letIn } from '../kit/oauth-client.ts'
import { startBeside } from '../commands/beside.ts'

const { commands, postrider } = await startBeside()

test('a grant is listed with who gave it to whom, and is over at once when it is revoked', async () => {
  assert.deepEqual(await commands.json('grant', 'list'), [])
  assert.match((await commands.run(['grant', 'list'])).stdout, /nobody has let/i)
  const { access_token, client } = await letIn(postrider, postrider.user)
  await letIn(postrider, postrider.other)
  const ask = async (): Promise<number> =>
    (await postrider.raw('/mcp', { method: 'POST', headers: { authorization: `Bearer ${access_token}` }, body: '{}' }))
      .status
  assert.equal(await ask(), 406, 'let in, and told what it must accept')

  const [theirs, mine] = await commands.json('grant', 'list')
  assert.equal(theirs.user, postrider.other.email)
  assert.partialDeepStrictEqual(mine, {
    user: postrider.user.email,
    client_id: client.id,
    client_name: 'Agent',
    redirect_uri: 'http://127.0.0.1:1/callback',
    resource: `${postrider.config.http.public_url}/mcp`,
  })
  assert.match((await commands.run(['grant', 'list'])).stdout, /ID\s+USER\s+PROGRAM\s+LED BACK TO\s+ALLOWED/)

  assert.deepEqual(await commands.json('grant', 'revoke', mine.id), { id: mine.id, revoked: true })
  assert.equal(await ask(), 401)
  assert.equal((await commands.json('grant', 'list')).length, 1)
  for (const id of [mine.id, 'nothing'])
    assert.match(await commands.fails('grant', 'revoke', id), /no grant.*grant list/)
  await commands.misused('grant', 'revoke')
  await commands.misused('grant', 'list', 'more')
})
