// What the user may do, by the answer of GET /v1/whoami. The scheduler checks each request
// again: these functions only decide which controls are shown.
const levels = ['view', 'submit', 'operate', 'admin'];
const allRoles = '/';

// coversRole reports whether a permission on a role applies to another one.
function coversRole(role, other) {
  return role === allRoles || role === other || other.startsWith(`${role}/`);
}

function listGrants(identity, permission) {
  return (identity?.permissions ?? []).filter((grant) => levels.indexOf(grant.permission) >= levels.indexOf(permission));
}

// hasPermission reports whether the user has the permission on the role.
export function hasPermission(identity, permission, role) {
  return listGrants(identity, permission).some(({ roles }) => roles.some((one) => coversRole(one, role)));
}

// hasPermissionOnAllRoles is needed to change agents.
export function hasPermissionOnAllRoles(identity, permission) {
  return hasPermission(identity, permission, allRoles);
}

// hasPermissionOnAnyRole reports whether there is a role on which the user has the permission.
export function hasPermissionOnAnyRole(identity, permission) {
  return listGrants(identity, permission).length > 0;
}

// canChange reports whether the user may change a job or a schedule: its owner and operators may.
export function canChange(identity, { role = '*', owner = '' }) {
  return hasPermission(identity, 'operate', role || '*') || (owner !== '' && owner === identity?.user && hasPermission(identity, 'submit', role || '*'));
}

// mayChangeHold reports whether a user who may hold the jobs may change the present hold, null for
// none: that of another user needs the permission operate on the role.
export function mayChangeHold(identity, hold, role) {
  return !hold || (hold.by ?? '') === (identity?.user ?? '') || hasPermission(identity, 'operate', role);
}

// mayHoldUser reports whether the user may hold the jobs of a user, or release them.
export function mayHoldUser(identity, name, hold) {
  const own = name === identity?.user && hasPermissionOnAnyRole(identity, 'submit');
  return hasPermissionOnAllRoles(identity, 'operate') || (own && mayChangeHold(identity, hold, allRoles));
}

// describePermissions formats the permissions: "submit on research, vision".
export function describePermissions(identity) {
  return (identity?.permissions ?? []).map(({ permission, roles }) => `${permission} on ${roles.map((role) => (role === allRoles ? 'all roles' : role)).join(', ')}`);
}
