// Passkeys in the browser: gets a challenge from the server, lets the device sign it, and sends the signature back.

async function post(to: string, body: object): Promise<Record<string, string>> {
  const response = await fetch(to, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as Record<string, string>
  if (!response.ok) throw new Error(answer['error'] ?? 'The server did not respond.')
  return answer
}

async function register(form: HTMLFormElement): Promise<string> {
  const proof = form.dataset['proof']!
  const given = new FormData(form)
  const old = given.get('old') || given.get('recovery') || ''
  const options = await post('/account/passkeys', { proof, old })
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never)
  const made = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
  const name = given.get('passkey')
  const answer = await post('/account/passkeys', { proof, name, response: made.toJSON() })
  return answer['next'] ?? '/'
}

async function signIn(form: HTMLFormElement): Promise<string> {
  const options = await post('/sign-in/passkey', {})
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as never)
  const given = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential
  const next = encodeURIComponent(form.dataset['next'] ?? '/')
  const answer = await post(`/sign-in/passkey?next=${next}`, { response: given.toJSON() })
  return answer['next'] ?? '/'
}

/** The first passkey of an invited user, which is made before there is a session. */
async function join(form: HTMLFormElement): Promise<string> {
  const { link, proof } = form.dataset
  const options = await post('/join/passkey', { link, proof })
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never)
  const made = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential
  const answer = await post('/join/passkey', { link, proof, response: made.toJSON() })
  return answer['next'] ?? '/'
}

const CEREMONIES: Record<string, (form: HTMLFormElement) => Promise<string>> = { register, 'sign-in': signIn, join }

for (const form of document.querySelectorAll<HTMLFormElement>('[data-passkey]')) {
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const said = form.querySelector('[data-said]')!
    said.textContent = ''
    const run = CEREMONIES[form.dataset['passkey']!]!
    const host = form.dataset['host']
    void (async () => {
      try {
        if (host !== undefined && host !== location.hostname)
          throw new Error(`Passkeys work at ${host} only. This page is at ${location.hostname}.`)
        location.assign(await run(form))
      } catch (thrown) {
        said.textContent = thrown instanceof Error ? thrown.message : 'Something went wrong. Try again.'
      }
    })()
  })
  // The form needs this script, so the styles show it only after this mark.
  form.dataset['ready'] = ''
}
