/* Gives an MPI of any ABI the functions, constants and statuses of the standard ABI (MPI 5, chapter 20) that
 * the crate uses. Compile it by that MPI's own compiler:
 *
 *     mpicc -shared -fPIC -O2 -o libwarpweft_mpi_shim.so shim.c
 */
#include <mpi.h>
#include <stdint.h>
#include <string.h>

/* The status of the standard ABI. The last fields are the shim's: the length in bytes, and a flag if it was
 * cancelled. */
typedef struct {
    int source, tag, error;
    int bytes_low, bytes_high, cancelled, unused[2];
} Status;

enum { ABI_ANY_SOURCE = -1, ABI_ANY_TAG = -2, WINDOW = 64 };
enum { ABI_ERR_TRUNCATE = 15, ABI_ERR_OTHER = 16, ABI_ERR_IN_STATUS = 19 };

static MPI_Comm comm_of(void *abi)
{
    if (abi == (void *)0x101) return MPI_COMM_WORLD;
    if (abi == (void *)0x102) return MPI_COMM_SELF;
    return (MPI_Comm)(intptr_t)abi;
}

static MPI_Datatype type_of(void *abi)
{
    switch ((intptr_t)abi) {
    case 0x214: return MPI_DOUBLE;
    case 0x258: return MPI_INT64_T;
    case 0x259: return MPI_UINT64_T;
    default: return MPI_BYTE;
    }
}

static MPI_Op op_of(void *abi)
{
    switch ((intptr_t)abi) {
    case 0x22: return MPI_MIN;
    case 0x23: return MPI_MAX;
    default: return MPI_SUM;
    }
}

static int source_of(int source) { return source == ABI_ANY_SOURCE ? MPI_ANY_SOURCE : source; }
static int tag_of(int tag) { return tag == ABI_ANY_TAG ? MPI_ANY_TAG : tag; }

static int error_of(int error)
{
    if (error == MPI_SUCCESS) return 0;
    int class = error;
    MPI_Error_class(error, &class);
    if (class == MPI_ERR_TRUNCATE) return ABI_ERR_TRUNCATE;
    if (class == MPI_ERR_IN_STATUS) return ABI_ERR_IN_STATUS;
    return ABI_ERR_OTHER;
}

static void status_of(const MPI_Status *from, int error, Status *to)
{
    int cancelled = 0;
    MPI_Count bytes = 0;
    MPI_Test_cancelled(from, &cancelled);
    if (!cancelled) MPI_Get_elements_x(from, MPI_BYTE, &bytes);
    memset(to, 0, sizeof *to);
    to->source = from->MPI_SOURCE;
    to->tag = from->MPI_TAG;
    to->error = error;
    to->bytes_low = (int)(bytes & 0x7fffffff);
    to->bytes_high = (int)(bytes >> 31);
    to->cancelled = cancelled;
}

int ww_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int own = MPI_THREAD_SINGLE;
    int error = MPI_Init_thread(argc, argv, required >= 4096 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &own);
    *provided = own == MPI_THREAD_MULTIPLE     ? 4096
                : own == MPI_THREAD_SERIALIZED ? 2048
                : own == MPI_THREAD_FUNNELED   ? 1024
                                               : 0;
    return error_of(error);
}
int ww_Finalize(void) { return error_of(MPI_Finalize()); }
int ww_Initialized(int *flag) { return error_of(MPI_Initialized(flag)); }
int ww_Comm_rank(void *comm, int *rank) { return error_of(MPI_Comm_rank(comm_of(comm), rank)); }
int ww_Comm_size(void *comm, int *size) { return error_of(MPI_Comm_size(comm_of(comm), size)); }
int ww_Comm_dup(void *comm, void **copy)
{
    MPI_Comm own;
    int error = MPI_Comm_dup(comm_of(comm), &own);
    *copy = (void *)(intptr_t)own;
    return error_of(error);
}
int ww_Comm_set_errhandler(void *comm, void *handler)
{
    (void)handler; /* The crate sets this one only. */
    return error_of(MPI_Comm_set_errhandler(comm_of(comm), MPI_ERRORS_RETURN));
}
int ww_Abort(void *comm, int code) { return error_of(MPI_Abort(comm_of(comm), code)); }
int ww_Get_library_version(char *text, int *length) { return error_of(MPI_Get_library_version(text, length)); }
/* All errors that the shim returns are classes already. */
int ww_Error_class(int error, int *class)
{
    *class = error;
    return 0;
}
int ww_Error_string(int error, char *text, int *length)
{
    int class = error == ABI_ERR_TRUNCATE ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
    return error_of(MPI_Error_string(class, text, length));
}

#define POST(call) \
    MPI_Request own = MPI_REQUEST_NULL; \
    int error = (call); \
    *request = (void *)(intptr_t)own; \
    return error_of(error)

int ww_Isend(const void *bytes, int count, void *type, int dest, int tag, void *comm, void **request)
{
    POST(MPI_Isend(bytes, count, type_of(type), dest, tag, comm_of(comm), &own));
}
int ww_Irecv(void *bytes, int count, void *type, int source, int tag, void *comm, void **request)
{
    POST(MPI_Irecv(bytes, count, type_of(type), source_of(source), tag_of(tag), comm_of(comm), &own));
}
int ww_Improbe(int source, int tag, void *comm, int *flag, void **message, Status *status)
{
    MPI_Message own = MPI_MESSAGE_NULL;
    MPI_Status found;
    int error = MPI_Improbe(source_of(source), tag_of(tag), comm_of(comm), flag, &own, &found);
    *message = (void *)(intptr_t)own;
    if (error == MPI_SUCCESS && *flag) status_of(&found, 0, status);
    return error_of(error);
}
int ww_Imrecv(void *bytes, int count, void *type, void **message, void **request)
{
    MPI_Message theirs = (MPI_Message)(intptr_t)*message;
    POST(MPI_Imrecv(bytes, count, type_of(type), &theirs, &own));
}
int ww_Ibarrier(void *comm, void **request) { POST(MPI_Ibarrier(comm_of(comm), &own)); }
int ww_Ibcast(void *bytes, int count, void *type, int root, void *comm, void **request)
{
    POST(MPI_Ibcast(bytes, count, type_of(type), root, comm_of(comm), &own));
}
int ww_Iallreduce(const void *from, void *to, int count, void *type, void *op, void *comm, void **request)
{
    POST(MPI_Iallreduce(from, to, count, type_of(type), op_of(op), comm_of(comm), &own));
}
int ww_Iallgather(const void *from, int count, void *type, void *to, int each, void *theirs, void *comm,
                  void **request)
{
    POST(MPI_Iallgather(from, count, type_of(type), to, each, type_of(theirs), comm_of(comm), &own));
}
int ww_Ialltoall(const void *from, int count, void *type, void *to, int each, void *theirs, void *comm,
                 void **request)
{
    POST(MPI_Ialltoall(from, count, type_of(type), to, each, type_of(theirs), comm_of(comm), &own));
}
int ww_Cancel(void **request)
{
    MPI_Request own = (MPI_Request)(intptr_t)*request;
    return error_of(MPI_Cancel(&own));
}
/* At most WINDOW requests, none of which is null. A request that is over is not given again. */
int ww_Testsome(int count, void **requests, int *done, int *indices, Status *statuses)
{
    MPI_Request own[WINDOW];
    MPI_Status found[WINDOW];
    if (count > WINDOW) return ABI_ERR_OTHER;
    for (int i = 0; i < count; i++) own[i] = (MPI_Request)(intptr_t)requests[i];
    int error = MPI_Testsome(count, own, done, indices, found);
    if (*done == MPI_UNDEFINED) *done = 0;
    int class = error_of(error);
    for (int i = 0; i < *done; i++)
        status_of(&found[i], class == ABI_ERR_IN_STATUS ? error_of(found[i].MPI_ERROR) : class, &statuses[i]);
    for (int i = 0; i < count; i++) requests[i] = (void *)(intptr_t)own[i];
    return class;
}
int ww_Get_count(const Status *status, void *type, int *count)
{
    (void)type; /* The crate asks for bytes only. */
    *count = status->bytes_high ? -32766 : status->bytes_low;
    return 0;
}
int ww_Test_cancelled(const Status *status, int *flag)
{
    *flag = status->cancelled;
    return 0;
}

/* What only plain MPI needs, as a peer in measurements: its statuses are always ignored. */
int ww_Send(const void *bytes, int count, void *type, int dest, int tag, void *comm)
{
    return error_of(MPI_Send(bytes, count, type_of(type), dest, tag, comm_of(comm)));
}
int ww_Recv(void *bytes, int count, void *type, int source, int tag, void *comm, Status *ignored)
{
    (void)ignored;
    return error_of(MPI_Recv(bytes, count, type_of(type), source_of(source), tag_of(tag), comm_of(comm),
                             MPI_STATUS_IGNORE));
}
int ww_Test(void **request, int *flag, Status *ignored)
{
    (void)ignored;
    MPI_Request own = (MPI_Request)(intptr_t)*request;
    int error = MPI_Test(&own, flag, MPI_STATUS_IGNORE);
    *request = (void *)(intptr_t)own;
    return error_of(error);
}
int ww_Wait(void **request, Status *ignored)
{
    (void)ignored;
    MPI_Request own = (MPI_Request)(intptr_t)*request;
    int error = MPI_Wait(&own, MPI_STATUS_IGNORE);
    *request = (void *)(intptr_t)own;
    return error_of(error);
}
