// Whom the operator lets programs lead back to, beside the configuration.
export const oauthAllowed = `
create table oauth_allowed (
  name text primary key,
  created_at integer not null
) strict, without rowid;
`
