package link

// Version is the version that master and agent report: the Mesos release whose
// v1 APIs they implement.
const Version = "1.11.0"
