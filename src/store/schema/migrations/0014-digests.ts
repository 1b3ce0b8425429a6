// Digests of the other rows whose texts are sent, pushed to webhooks or shown, or that grant access. Existing rows get
// their digests now. The migration needs the function `row_digest` (store/digests.ts).

const DIGESTED = [
  [6, 'users', 'email name password_hash plan operator reads_for sealed_totp'],
  [7, 'tokens', 'user_key name scopes hash agent_id daily expires_at'],
  [8, 'domains', 'name mail_from_prefix tls_policy tracking_redirect_mode'],
  [9, 'dkim_keys', 'domain_key selector public_key sealed_private_key'],
  [10, 'records', 'domain_key record_type name value'],
  [11, 'inboxes', 'user_key domain_key name address'],
  [12, 'webhooks', 'user_key domain_key name url events sealed_secret sealed_previous'],
  [13, 'audiences', 'user_key domain_key name description'],
  [14, 'contacts', 'email name preferences custom_fields'],
  [15, 'campaigns', 'name subject body_html body_text from_address reply_to test_recipient_email'],
  [16, 'suppressions', 'domain_key email reason source scope'],
  [17, 'oauth_clients', 'name redirect_uris'],
  [18, 'oauth_grants', 'client_key user_key redirect_uri challenge resource code_hash'],
  [19, 'passkeys', 'user_key name public_key transports'],
  [20, 'sessions', 'user_key open_as hash'],
  [21, 'notices', 'user_key recipient subject text'],
  [22, 'privacy_requests', 'user_key kind recipient_hash sealed_recipient'],
  [23, 'outbound_webhooks', 'webhook_key event payload'],
] as const

const list = (columns: string, of = ''): string =>
  columns
    .split(' ')
    .map((name) => `${of}"${name}"`)
    .join(', ')

/**
 * The conflict clause of the statement that fires a trigger replaces the conflict clauses inside the trigger. These
 * triggers are written without conflict clauses, so that they work in the same way for "insert … on conflict" and for
 * "update or replace".
 */
const triggers = DIGESTED.map(([of, table, columns]) => {
  const place = `"of" = ${of} and row_key = new.key`
  const digest = `row_digest(${list(columns, 'new.')})`
  return `
create trigger ${table}_digest_of_new after insert on ${table}
  begin delete from digests where ${place}; insert into digests values (${of}, new.key, ${digest}); end;
create trigger ${table}_digest_of_changed after update of ${list(columns)} on ${table}
  begin update digests set digest = ${digest} where ${place}; end;
create trigger ${table}_digest_of_gone after delete on ${table}
  begin delete from digests where "of" = ${of} and row_key = old.key; end;`
}).join('')

export const digests = `${triggers}
${DIGESTED.map(
  ([of, table, columns]) =>
    `insert or replace into digests select ${of}, key, row_digest(${list(columns)}) from ${table};`,
).join('\n')}
`
