// The settings that findings lead to: hostname, certificates and backups, in the configuration file of the server.
import { serverSettings } from '../checks/api-settings.ts'
import { html } from 'hono/html'
import { forInstance } from '../base/named-instance.ts'
import type { Actions } from '../views/actions.ts'
import { onePlace } from '../views/pages.ts'
import { found } from '../views/html/place.ts'

const PATH = '/server/settings/server'

const ACTIONS: Actions<typeof serverSettings> = {
  hostname: {
    label: 'Save hostname',
    fields: { hostname: { label: 'Hostname', hint: 'The public DNS name of this server, such as mx.example.org.' } },
    said: () => forInstance('The hostname was saved. Restart the server to use it: "systemctl restart postrider".'),
  },
  acme: {
    label: 'Turn on and accept the terms',
    fields: {
      acme_email: { label: 'Contact address', type: 'email', hint: 'Optional. The CA sends notices to it.' },
    },
    said: () =>
      forInstance('Automatic certificates are on. Restart the server to request one: "systemctl restart postrider".'),
  },
  backup: {
    label: 'Add destination',
    fields: {
      backup_destination: {
        label: 'Destination',
        hint: 'A directory on another disk, such as /mnt/backups, or an S3 bucket, such as s3://bucket/prefix.',
      },
    },
    said: 'The destination was added. The next scheduled backup uses it.',
  },
}

export const settingsPage = onePlace({
  path: '/server/settings',
  operator: true,
  of: serverSettings,
  list: ['/server', 'Server'],
  find: async (visit) => found(await visit.get(serverSettings, PATH)).one,
  title: () => 'Settings',
  about: 'Changes are written to the configuration file of this server. Its other settings and comments stay.',
  actions: ACTIONS,
  status: 422,
  body: async ({ form, one }) =>
    html`<h2>Hostname</h2>
      <p>
        Used in EHLO, and the target of the MX records of your domains. It is now
        <code>${String(one.attributes.hostname)}</code>. After a change, publish the DNS records of your domains again.
      </p>
      ${await form('hostname')}
      <h2 id="acme">Automatic certificates</h2>
      <p>
        Let’s Encrypt issues a certificate for the hostname and renews it. Port 80 of this server must be reachable.
        Read the <a href="https://letsencrypt.org/repository/">terms of service</a> first.
      </p>
      ${await form('acme')}
      <h2 id="backup">Backups</h2>
      <p>The server makes a backup to each destination every night, and tests it once per week.</p>
      ${await form('backup')}`,
})
